package journaltest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/everturn/everturn/journal"
)

// T is the part of *testing.T that a check needs.
type T interface {
	Errorf(format string, args ...any)
	FailNow()
	Helper()
	Context() context.Context
}

// promise is one check. open returns a new, empty store; the suite closes it.
type promise struct {
	name  string
	check func(t T, open func() Store)
}

// pairPromise is a check on two stores over the same data, like those of two processes.
type pairPromise struct {
	name  string
	check func(t T, a, b Store)
}

func promises() []promise {
	return slices.Concat(beginPromises, closePromises, inferencePromises, callPromises, resultPromises, chunkPromises,
		followPromises,
		followSessionPromises, prunePromises, peoplePromises, waitingPromises, joinedPromises, forkPromises, contentPromises,
		clockPromises, exportPromises, exportPeoplePromises,
		suspendPromises, markPromises, artifactPromises, driftPromises, latePromises, elicitationPromises, exportToolPromises,
		exportPermissionPromises, tenantPromises)
}

// Run checks every promise on stores that open returns. open closes them with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) *journal.DB) {
	for _, p := range promises() {
		t.Run(p.name, func(t *testing.T) {
			p.check(t, func() Store { return open(t) })
		})
	}
}

// RunPair checks the promises between two stores that share their data. open closes them with t.Cleanup.
func RunPair(t *testing.T, open func(t *testing.T) (a, b *journal.DB)) {
	for _, p := range pairPromises {
		t.Run(p.name, func(t *testing.T) {
			a, b := open(t)
			p.check(t, a, b)
		})
	}
}

// checkTimeout ends a check that would wait without end on a broken store; followTimeout bounds how long a chunk takes
// to reach a follower.
const (
	checkTimeout  = 2 * time.Minute
	followTimeout = 5 * time.Second
)

// Failing runs the promises that only names, or all promises if only is empty. It returns those that do not hold, with
// the failure of each.
func Failing(open func() Store, only ...string) map[string]string {
	failed := map[string]string{}
	for _, p := range promises() {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		if said := record(func(t T) { p.check(t, open) }); said != "" {
			failed[p.name] = said
		}
	}
	return failed
}

// record runs a check on its own goroutine, which FailNow ends, and returns the check's failures.
func record(check func(t T)) string {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "\n")
}

type recorder struct {
	ctx  context.Context
	mu   sync.Mutex
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow()                 { runtime.Goexit() }
func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
