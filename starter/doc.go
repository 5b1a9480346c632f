// Command starter is Everturn's command line: it starts turns, follows them, and shows what the journal keeps of them.
//
// Each command is a file. Only the answer goes to stdout. Progress goes to stderr, and only on a terminal. The exit
// code tells how the turn ended; see exit.go.
package main
