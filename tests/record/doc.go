// Command record keeps the history of a run on any Temporal server among the kept histories. Package replay says when
// and how. Run it at the repository's root:
//
//	go run ./tests/record -name v2-approval -workflow-id ID [-run-id R] [-address host:port] [-namespace N]
//
// Without -address and -namespace it looks where Temporal's own environment variables and profiles point, and then at a
// development server on this machine. The exit code is 0 where the history was kept and 1 where it was not.
package main
