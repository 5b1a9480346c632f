// Package chat runs a conversation with a session on a terminal. It runs inline: finished output is printed and belongs
// to the terminal's own scrollback. Below it stands a live part with the answer as it streams, the running tool calls,
// the current request to the user, and the input.
//
// The chat reads everything that it shows from the journal, including its own user's messages, so that two terminals on
// one session show the same. What the user does goes to the session's workflow. The chat holds nothing that the journal
// does not have: the user may leave or kill it at any time, and its turn goes on.
//
// A Model is what Bubble Tea runs: Update takes keys and what the feed has read, and View shows the live part. Output
// that is to be printed goes through a queue (see queue.go), a few lines at a time and in order.
//
// Models, tools and other users write what the chat shows. The text passes through package termsafe before it is laid
// out, and the Markdown renderer's output then passes through sgrOnly.
package chat
