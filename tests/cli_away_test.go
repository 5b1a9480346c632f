package tests

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// wire is a connection to Temporal that a test can cut: open connections end, and new ones get no answer.
type wire struct {
	net.Listener
	mu      sync.Mutex
	conns   []net.Conn
	severed bool
	all     sync.WaitGroup
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l}
	w.all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			w.carry(near)
		}
	})
	t.Cleanup(w.cut)
	return w
}

func (w *wire) carry(near net.Conn) {
	far, err := net.Dial("tcp", stack.Address)
	if err != nil {
		_ = near.Close()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, near, far)
	w.all.Go(func() { _, _ = io.Copy(near, far) }) // both copies end when the wire is cut
	w.all.Go(func() { _, _ = io.Copy(far, near) })
	if w.severed {
		w.hangUp()
	}
}

func (w *wire) cut() {
	_ = w.Close() // the listener may be closed already
	w.mu.Lock()
	w.severed = true
	w.hangUp()
	w.mu.Unlock()
	w.all.Wait()
}

func (w *wire) hangUp() {
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// TestCLIFollowsATurnWithTemporalAway cuts the connection to Temporal during a turn: the journal is enough to follow it
// to its end.
func TestCLIFollowsATurnWithTemporalAway(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Text("It takes its time.").Hold(2, gate))))
	h.worker()
	w := newWire(t)
	run := h.begin(nil, "run", "-o", "jsonl", "--set", "temporal.address="+w.Addr().String(), "Slowly.")
	run.says("turn_started")
	awaitGate(t, gate)
	w.cut()
	gate.Release()
	run.exits(0)
	assert.Contains(t, run.out.String(), "turn_completed")
	assert.NotContains(t, run.err.String(), "Temporal", "nothing was lost, so there is nothing to say")
	assert.NotContains(t, run.err.String(), "journal")
}
