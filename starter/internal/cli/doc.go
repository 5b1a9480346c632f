// Package cli is Everturn's command line. Its packages are the groups of the help; each command has a file that is
// named after it: setup/tools_status.go holds `everturn tools status`. root.go puts the commands together.
//
// Only the answer goes to stdout. Progress goes to stderr, and only on a terminal. The exit code reports how the turn
// ended; see app/exit.go.
package cli
