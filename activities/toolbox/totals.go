package toolbox

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sync/semaphore"
)

// Bounds on large messages, in bytes. A result is copied several times between its message and the journal: it is
// decoded, sanitized, redacted, cut and encoded again. A decoded value takes more memory than its text.
const (
	valueBytes   = 256
	largeMessage = 256 << 10 // a connection reads one message above this size at a time
	maxLarge     = 32 << 20  // of large responses being processed, for all servers of the worker together
)

// memory bounds the memory that large responses take in the worker.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{semaphore.NewWeighted(maxLarge)} }

// take waits until there is room for n bytes and charges them to the share in ctx. It gives up when ctx ends, because
// the SDK then drops the response.
func (m memory) take(ctx context.Context, n int64) {
	s, _ := ctx.Value(shareKey{}).(*share)
	if s == nil { // a handshake has no share
		return
	}
	s.put(nil) // a request that waits for room holds none
	n = min(n, maxLarge)
	if m.free.Acquire(ctx, n) == nil {
		s.put(func() { m.free.Release(n) })
	}
}

// share is the room that the response to one of our requests takes. The zero value takes none.
type share struct {
	mu   sync.Mutex
	free func() // nil: it takes none
	over bool   // the response is no longer being processed
}

type shareKey struct{}

func withShare(ctx context.Context, s *share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// put replaces the room that the share takes.
func (s *share) put(free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free != nil {
		s.free()
	}
	if s.free = free; s.over && free != nil {
		free()
		s.free = nil
	}
}

// end frees the share's room for good.
func (s *share) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.put(nil)
}

// endAfter calls end when kept is closed, or immediately if kept is nil or there is nothing to free.
func (s *share) endAfter(kept <-chan struct{}) {
	s.mu.Lock()
	wait := s.free != nil && kept != nil
	s.mu.Unlock()
	if !wait {
		s.end()
		return
	}
	go func() {
		<-kept
		s.end()
	}()
}

// Bounds for all servers of a worker together. Above maxBuffered, the worker drops the largest connection of the server
// that buffers most, unless that connection is below fairBuffered.
const (
	maxBuffered  = 256 << 20 // bytes of unfinished messages
	fairBuffered = 1 << 20
	maxRequests  = 4096 // HTTP requests under way, streams included: each holds a file descriptor
	minRequests  = 256
)

// totals are shared by all connections of a Host.
type totals struct {
	mu       sync.Mutex
	memory   memory
	buffered int64
	held     map[*meter]int64 // buffered, by connection; entries of 0 are deleted
	requests chan struct{}    // holds one element for each HTTP request under way
}

// newTotals leaves half of the file descriptors that this process may open to everything else.
func newTotals() *totals {
	most := maxRequests
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur)/2 < maxRequests {
		most = max(int(limit.Cur/2), minRequests) //nolint:gosec // it is less than maxRequests
	}
	return &totals{memory: newMemory(), held: map[*meter]int64{}, requests: make(chan struct{}, most)}
}

// add records that m buffers n more bytes. It returns the connection to drop if all connections together exceed the
// bound, or nil.
func (t *totals) add(m *meter, n int64) *meter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffered += n
	if t.held[m] += n; t.held[m] == 0 {
		delete(t.held, m)
	}
	if n <= 0 || t.buffered <= maxBuffered {
		return nil
	}
	servers := map[string]int64{}
	for other, held := range t.held {
		servers[other.server] += held
	}
	most := m
	for other, held := range t.held {
		if a, b := servers[other.server], servers[most.server]; a > b || a == b && held > t.held[most] {
			most = other
		}
	}
	if t.held[most] <= fairBuffered {
		return nil
	}
	return most
}

// enter waits until one more HTTP request may be made.
func (t *totals) enter(ctx context.Context) error {
	select {
	case t.requests <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for one of %d HTTP requests to MCP servers to end: %w", cap(t.requests), context.Cause(ctx))
	}
}

func (t *totals) leave() { <-t.requests }
