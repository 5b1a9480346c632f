// Package items turns the events of a turn into items: what a reader sees of a turn, in order. The protocols that the
// HTTP server speaks are views of the items, so that what an event means is said once. The package is pure: the same
// events give the same changes, from the first event on, whoever reads them and when.
package items
