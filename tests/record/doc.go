// Command record keeps the history of a run on any Temporal server among the kept histories. Package replay says when
// and how. Run it at the repository's root:
//
//	go run ./tests/record -name v1-approval -workflow-id ID [-run-id R] [-address host:port] [-namespace N]
//	go run ./tests/record -missing
//
// With -missing it records nothing and prints a pattern for go test -run that matches the tests whose histories are
// missing. Without -address and -namespace it uses Temporal's own environment variables and profiles, and then a
// development server on this machine. The exit code is 0 if the history was kept and 1 if it was not.
package main
