// Package statedir makes the folder .everturn, in which Everturn keeps its journal, databases, logs and locks, safe to
// write to.
//
// The folder is in the working directory, which may be an untrusted repository: its content may come from the clone.
// Secure therefore runs before anything in the folder is opened.
package statedir
