package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// TestACallThatGoesOnByItselfIsNotMadeAgain checks that a detached call counts as running: it is not dispatched again
// meanwhile, even if its tool is repeatable.
func TestACallThatGoesOnByItselfIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, appendOnce("after"),
		l.host(config.MCPTool{Repeatable: true, Timeout: time.Second, BackgroundTimeout: time.Minute}))
	r.work()
	run := r.begin(session(t), "Append it.", nil)
	assert.Equal(t, "Appended.", r.result(run).Answer)
	assert.Equal(t, 1, l.count("begun", "x"))
	call := r.calls(run.GetRunID(), 1)[0]
	assert.Equal(t, turn.OutcomeUnknown, call.Outcome)
	assert.Contains(t, call.Text, "continues in the background")
	assert.Equal(t, 1, call.Runs)
	l.open()
	require.Eventually(t, func() bool { return r.late(run.GetRunID(), call.Call.ID) == 1 }, within, within/1000)
	r.sound(session(t))
}
