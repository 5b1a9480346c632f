// Package app is what the commands share: the flags that all have, the configuration, the journal, the connection to
// Temporal, output, exit codes, and how to ask on a terminal.
package app
