package toolbox

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds on large messages, in bytes. A result is copied several times between the message that brings it and the
// journal: it is decoded, sanitized, redacted, cut and encoded again. A decoded value takes more memory than its text.
const (
	valueBytes   = 256
	largeMessage = 256 << 10 // a connection has one message above this read at a time
	maxLarge     = 32 << 20  // answers above it that are worked on, of all servers of the worker together
)

// memory is what large answers may take of the worker.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{semaphore.NewWeighted(maxLarge)} }

// take waits until there is room for n bytes and puts them down to the share in ctx. It gives up when ctx ends, because
// then the SDK drops the answer.
func (m memory) take(ctx context.Context, n int64) {
	s, _ := ctx.Value(shareKey{}).(*share)
	if s == nil { // of a handshake
		return
	}
	s.put(nil) // a request that waits for room holds none
	n = min(n, maxLarge)
	if m.free.Acquire(ctx, n) == nil {
		s.put(func() { m.free.Release(n) })
	}
}

// share is the room that the answer to one of our requests takes. The zero value takes none.
type share struct {
	mu   sync.Mutex
	free func() // nil: it takes none
	over bool   // nobody works on an answer any more
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

// endAfter is end when kept is closed, and at once if it is nil or there is nothing to free.
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
