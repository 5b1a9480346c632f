// Package ui puts what a turn does into words: its calls, its requests, their decisions, and what it used. The commands
// that follow a turn and the chat show the same lines.
//
// Models, tools, servers and other users write most of what is shown. Every function of this package returns text that
// is safe for a terminal.
package ui
