package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/pool"
)

// The protocol versions that a handshake begins with. The empty one is the SDK's latest, which first asks the server to
// describe itself. Servers that do not know that request may not respond, so over stdio the older version goes first.
const (
	versionLatest = ""
	versionLegacy = "2025-11-25"
)

// link is one connection to one process or remote session of a server, below the protocol.
type link struct {
	transport sdk.Transport
	watched   *watchedTransport // the same transport, if it tracks what was sent and answered; else nil
	meter     *meter            // nil: the connection has no bounds
	versions  []string          // to try, in this order
	// stop ends the connection and everything that belongs to it, within a bounded time. It may be called twice.
	stop func() error
	// tail returns the end of the server's stderr.
	tail func() string
	// fate returns how the server's process ended; empty while it runs or if there is none.
	fate func() string
	// disposable: stop ends all of the server's work on this connection, and a new connection can replace it.
	disposable bool
}

func silent() string { return "" }

// dialer opens links to one server, each for one tenant.
type dialer interface {
	dial(ctx context.Context, tenant string) (*link, error)
}

// errHostClosed is the error of starts after Close.
var errHostClosed = pool.ErrClosed

// tasks are goroutines that end before their owner does.
type tasks struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f in a goroutine, or returns false if the tasks are closed.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.wg.Go(f)
	}
	return !t.closed
}

// close prevents further starts and waits for the running tasks.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// within runs f and reports whether it finished within d. If not, f continues in the background.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
