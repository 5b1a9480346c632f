// Package ui describes in words what a turn does: its calls, its requests, the decisions about them, and its usage. The
// commands that follow a turn and the chat show the same lines.
//
// Models, tools, servers and other users write most of what is shown. Every function of this package returns text that
// is safe for a terminal.
package ui
