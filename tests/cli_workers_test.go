package tests

import "testing"

// TestAServerThatListsNoWorkers asks the server behind --dev, which is older than the list.
func TestAServerThatListsNoWorkers(t *testing.T) {
	t.Parallel()
	newUserFolder(t, "").everturn("workers").exits(3).says("1.30")
}
