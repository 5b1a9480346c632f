package tests

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/script"
)

// TestCLISigtermDetachesOnly has a command be ended as GNU timeout does it: twice at once.
func TestCLISigtermDetachesOnly(t *testing.T) {
	t.Parallel()
	gate := script.NewGate()
	h := newHome(t, asking(script.Start(t, script.Text("It takes its time.").Hold(2, gate))))
	h.worker()
	c := h.begin(nil, "run", "-s", "timed-out", "Slowly.")
	awaitGate(t, gate)
	c.signal(syscall.SIGTERM)
	c.says("detached")
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended with the first
	assert.NotContains(t, c.exits(0).err.String(), "to stop it")
	gate.Release()
	assert.Equal(t, "It takes its time.\n", h.starter("attach", "-q", "timed-out").exits(0).out.String())
}

// pressedUntilItEnds presses a key again and again: what comes at once after the first is taken for the same press.
func (c *command) pressedUntilItEnds(press func()) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		press()
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	}, within, 100*time.Millisecond)
}
