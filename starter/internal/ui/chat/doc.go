// Package chat runs a conversation with a session on a whole terminal screen: the conversation, which scrolls, and
// below it the messages on their way, the current request to the user, the input, the status, and the keys that have an
// effect.
//
// The chat reads everything that it shows from the journal, including the messages of its own user, so that two
// terminals on one session show the same. It sends what the user does to the session's workflow. Its own state is only
// what the user is typing: the user may leave or kill the chat at any time, and the turn continues.
//
// A Model is what Bubble Tea runs: Update handles keys and the events that the feed has read, and View returns the
// screen. Each entry of the conversation keeps its layout until the entry or the width of the screen changes.
//
// Models, tools and other users write what the chat shows. The text passes through package termsafe before it is laid
// out. From the output of glamour and huh, the chat removes all control sequences except those for colours and styles.
package chat
