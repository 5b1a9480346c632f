package tests

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// TestCLISigtermDetachesOnly sends SIGTERM twice in quick succession, as GNU timeout does.
func TestCLISigtermDetachesOnly(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("It takes its time.").Hold(2, gate))))
	h.worker()
	c := h.begin(nil, "run", "-s", "timed-out", "Slowly.")
	awaitGate(t, gate)
	c.signal(syscall.SIGTERM)
	c.says("detached")
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the first signal may have ended the process
	assert.NotContains(t, c.exits(0).err.String(), "to stop it")
	gate.Release()
	assert.Equal(t, "It takes its time.\n", h.everturn("attach", "-q", "timed-out").exits(0).out.String())
}

// pressedUntilItEnds presses a key repeatedly, because a press right after the first one counts as the same press.
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

// TestCLIStopsTheOneThatRuns runs stop without a session while the only running turn has no worker and the journal
// knows another session.
func TestCLIStopsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, asking(fakellm.Start(t, fakellm.Text("Done."))))
	w := h.worker()
	h.everturn("run", "-s", "stop-older", "One.").exits(0)
	assert.Contains(t, h.everturn("stop").exits(3).err.String(), "no session has a running turn")
	assert.Regexp(t, `is completed\n$`, h.everturn("stop", "stop-older").exits(0).err.String())
	w.signal(syscall.SIGTERM)
	w.exits(0)
	sent := decoded[ids](h.everturn("send", "-o", "json", "stop-newer", "Two.").exits(0))
	var stop *command
	require.Eventually(t, func() bool { // Temporal's visibility list lags briefly
		stop = h.begin(nil, "stop")
		require.Eventually(t, func() bool { return stop.err.String() != "" }, within, 5*time.Millisecond)
		return !strings.Contains(stop.err.String(), "no session has a running turn")
	}, within, 100*time.Millisecond)
	h.worker()
	assert.Contains(t, stop.exits(0).err.String(), "turn "+sent.Turn+" is cancelled")
}
