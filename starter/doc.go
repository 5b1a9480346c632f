// Command starter is Everturn's command line: it starts turns, follows them, and shows what was kept of them.
//
// Each command is a file. Only the answer goes to stdout; what happens on the way goes to stderr, and only on a
// terminal. The exit code tells how the turn ended; see exit.go.
package main
