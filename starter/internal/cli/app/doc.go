// Package app holds what the commands share: the flags that every command has, the configuration, the journal, the
// connection to Temporal, output, exit codes, and questions to the user on the terminal.
package app
