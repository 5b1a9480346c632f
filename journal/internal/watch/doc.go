// Package watch wakes followers of a journal: at once after this process's own commits, and by polling after the
// commits of other processes. One query covers all topics; it runs only while there are followers.
package watch
