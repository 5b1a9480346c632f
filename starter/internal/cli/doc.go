// Package cli is Everturn's command line. Its packages are the groups of the help; each command has a file that is
// named after it: setup/tools_status.go holds `everturn tools status`. root.go puts the commands together: its groups
// list all commands. The commands compact and tools call are in package talk, although the help lists them in other
// groups, because they follow turns or calls as a conversation does. A command whose first argument is named session
// gets the flag --session and completion of sessions from App.SessionFlags.
//
// Only the answer goes to stdout. Progress goes to stderr, and only on a terminal. The exit code reports how the turn
// ended; see app/exit.go.
package cli
