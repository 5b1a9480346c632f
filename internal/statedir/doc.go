// Package statedir makes the folder .everturn, in which Everturn keeps its journal, databases, logs and locks, safe to write to.
//
// The folder lies in the working directory, which may be a repository that a stranger wrote: what is in it may have come
// with the clone. Secure therefore runs before anything in the folder is opened.
package statedir
