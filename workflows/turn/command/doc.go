// Package command decides about the command lines of a shell. It parses them as POSIX does, and does no I/O.
//
// Rules decide which programs a line starts, not what those do: a Makefile, a test or an interpreter can start
// anything. The sandbox bounds that. A line is plain if it consists of calls whose words are literals, joined by && ||
// ; | and newlines, with redirections into the tree. Only the calls of a plain line can be allowed. In any other line,
// rules that deny and ask look for calls wherever the shell would make them, also behind wrappers such as env, xargs
// and sh -c.
package command
