package fakellm

import (
	"context"
	"sync"
)

// Gate is a point at which replies stop, so that a test can act there.
type Gate struct {
	once     sync.Once
	open     sync.Once
	reached  chan struct{}
	released chan struct{}
}

// NewGate makes a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}), released: make(chan struct{})}
}

// Reached is closed when the first reply has arrived at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release opens the gate permanently.
func (g *Gate) Release() { g.open.Do(func() { close(g.released) }) }

// pass waits for the release, and reports false if the client or the server ended first.
func (g *Gate) pass(ctx context.Context, quit <-chan struct{}) bool {
	g.once.Do(func() { close(g.reached) })
	select {
	case <-g.released:
		return true
	case <-ctx.Done():
	case <-quit:
	}
	return false
}
