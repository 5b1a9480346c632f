package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	everturn "github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAPlainClientGetsTheResultOfItsTurn starts 30 turns, each of which gets a message that is too late for it. Plain
// Get, which follows continued runs, returns the result of the turn that was started, although the session goes on.
func TestAPlainClientGetsTheResultOfItsTurn(t *testing.T) {
	t.Parallel()
	const turns = 30
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		reply := fakellm.Text("To: " + q.Chat.Asked())
		if strings.HasPrefix(q.Chat.Asked(), "First") {
			reply = reply.Hold(0, gate)
		}
		return reply
	}), func(c *config.Config) { c.Worker.MaxConcurrentActivities = 2 * turns })
	e.work()
	var runs []client.WorkflowRun
	for i := range turns {
		id := fmt.Sprintf("%s %d", session(t), i)
		runs = append(runs, e.start(id, workflows.Input{Message: &workflows.Message{ID: "m1", Text: fmt.Sprint("First ", i)}}))
	}
	require.Eventually(t, func() bool { return len(e.model.Requests()) == turns }, within, 10*time.Millisecond)
	late := make([]everturn.Turn, turns)
	for i, run := range runs {
		late[i] = e.say(run.GetID(), workflows.Message{ID: "m2", Text: fmt.Sprint("Late ", i)})
		assert.Equal(t, run.GetRunID(), late[i].ID)
	}
	gate.Release()
	for i, run := range runs {
		res := e.result(run)
		assert.Equal(t, run.GetRunID(), res.Turn)
		assert.Equal(t, fmt.Sprint("To: First ", i), res.Answer)
		assert.Equal(t, []string{"m2"}, res.Left)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		next, err := e.people().Wait(ctx, late[i])
		cancel()
		require.NoError(t, err, "%+v", late[i])
		assert.Equal(t, fmt.Sprint("To: Late ", i), next.Answer)
		assert.NotEqual(t, res.Turn, next.Turn)
		assert.Equal(t, next.Turn, e.result(e.client.GetWorkflow(t.Context(), run.GetID(), next.Turn)).Turn)
		e.ran = append(e.ran, workflow.Execution{ID: run.GetID(), RunID: next.Turn})
	}
}

// TestALostLateMessageIsReported checks that a client that waits for a late message learns that no turn uses it, if the
// turn that it was to begin is ended from outside.
func TestALostLateMessageIsReported(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Text("First.").Hold(0, gate))
	stop := e.work()
	first := e.say(session(t), workflows.Message{ID: "m1", Text: "First."})
	e.reach(gate)
	late := e.say(session(t), workflows.Message{ID: "m2", Text: "Second."})
	require.NoError(t, e.people().Terminate(t.Context(), session(t)))
	gate.Release()
	_, err := e.people().Wait(t.Context(), late)
	require.ErrorIs(t, err, everturn.ErrUndelivered)
	stop()
	e.ran = nil
	rec, err := e.journal.Turn(t.Context(), first.ID)
	require.NoError(t, err)
	assert.NotEqual(t, turn.StateCompleted, rec.State)
}
