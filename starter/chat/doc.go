// Package chat is a conversation with a session on a terminal. It runs inline: what is finished is printed and belongs to
// the terminal's own scrollback; below it stands a live part with the answer as it comes, the calls that run, what people
// are asked, and the input.
//
// Everything that is shown is read from the journal, one's own messages included, so that two terminals on one session
// show the same. What a person does goes to the session's workflow. Nothing is held that the journal does not have: a
// chat may be left or killed at any time, and its turn goes on.
//
// A Model is what Bubble Tea runs: Update takes keys and what the feed has read, View shows the live part. What is to be
// printed goes through a queue (see queue.go), a few lines at a time and in order.
//
// Models, tools and other people write what is shown here. It passes package terminal before it is laid out, and what the
// Markdown renderer made of it passes sgrOnly after that.
package chat
