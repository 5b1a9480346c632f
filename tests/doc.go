// Package tests holds Everturn's tests from the outside: turns on a real Temporal server with real workers, a scripted
// model behind real HTTP and real tools; kept histories that must replay; and the rules of the house.
package tests
