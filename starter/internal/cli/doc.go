// Package cli is Everturn's command line. Each command has a file that is named after it: tools_status.go holds
// `starter tools status`.
//
// Only the answer goes to stdout. Progress goes to stderr, and only on a terminal. The exit code tells how the turn
// ended; see exit.go.
package cli
