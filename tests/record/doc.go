// Command record prints a pattern for go test -run that matches the tests whose histories are not kept yet. Run it at
// the repository's root; `make record-histories` does.
package main
