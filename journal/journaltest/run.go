package journaltest

import (
	"slices"
	"testing"
	"time"

	"github.com/everturn/everturn/journal"
)

// promise is one check. open returns a new, empty journal; the suite closes it.
type promise struct {
	name  string
	check func(t *testing.T, open func() *journal.DB)
}

// pairPromise is a check on two handles of the same data, like those of two processes.
type pairPromise struct {
	name  string
	check func(t *testing.T, a, b *journal.DB)
}

func promises() []promise {
	return slices.Concat(beginPromises, closePromises, inferencePromises, callPromises, resultPromises, eventPromises,
		followPromises,
		followSessionPromises, prunePromises, peoplePromises, waitingPromises, joinedPromises, forkPromises, contentPromises,
		clockPromises, exportPromises, exportPeoplePromises,
		suspendPromises, markPromises, artifactPromises, driftPromises, latePromises, elicitationPromises, clientToolPromises,
		exportToolPromises,
		exportPermissionPromises, tenantPromises, usagePromises, compactPromises, subagentPromises, tokenPromises,
		exchangePromises)
}

// Run checks every promise on journals that open returns, several promises at once. open closes the journals with
// t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) *journal.DB) {
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t, func() *journal.DB { return open(t) })
		})
	}
}

// RunPair checks the promises between two handles of the same data, several at once. open closes the handles with
// t.Cleanup.
func RunPair(t *testing.T, open func(t *testing.T) (a, b *journal.DB)) {
	for _, p := range pairPromises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			p.check(t, a, b)
		})
	}
}

// followTimeout bounds how long an event takes to reach a follower.
const followTimeout = 5 * time.Second
