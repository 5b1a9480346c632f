// Package chat runs a conversation with a session on a whole terminal screen: the conversation, which scrolls, and
// below it the messages on their way, the current request to the user, the input, the status, and the keys that have an
// effect.
//
// The chat reads everything that it shows from the journal, including its own user's messages, so that two terminals on
// one session show the same. What the user does goes to the session's workflow. The chat holds nothing that the journal
// does not have: the user may leave or kill it at any time, and its turn goes on.
//
// A Model is what Bubble Tea runs: Update takes keys and what the feed has read, and View shows the screen. Each entry
// of the conversation keeps its layout until it or the width changes.
//
// Models, tools and other users write what the chat shows. The text passes through package termsafe before it is laid
// out, and the output of glamour and huh then keeps no control sequences but colours.
package chat
