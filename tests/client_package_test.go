package tests

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// dialled returns a client as another program would create it.
func (e *env) dialled() *client.Client {
	e.t.Helper()
	c, err := client.Open(e.t.Context(), e.cfg)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { assert.NoError(e.t, c.Close()) })
	return c
}

// began records the run of a turn, so that its history is replayed at the end of the test.
func (e *env) began(t client.Turn) {
	e.ran = append(e.ran, workflow.Execution{ID: t.Session, RunID: t.ID})
}

func TestAProgramStartsFollowsAndApprovesATurn(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", `{"text":"a"}`), fakellm.Text("Done.")), askToTouch)
	e.work(touching(&effects))
	c := e.dialled()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := c.Find(ctx, session(t), "")
	require.ErrorIs(t, err, client.ErrNotFound)
	begun, err := c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Touch it."}})
	require.NoError(t, err)
	e.began(begun)
	var kinds []turn.EventKind
	for event, err := range c.Follow(ctx, begun, -1) {
		require.NoError(t, err)
		kinds = append(kinds, event.Kind)
		if event.Kind != turn.EventApprovalRequested {
			continue
		}
		running, err := c.RunningSessions(ctx)
		require.NoError(t, err)
		assert.Contains(t, running, session(t))
		pending, err := c.Pending(ctx, client.PendingInput{Session: session(t)})
		require.NoError(t, err)
		require.Len(t, pending, 1)
		var shown turn.Request
		require.NoError(t, json.Unmarshal(event.Data, &shown))
		shown.Session, shown.Turn, shown.AskedAt = session(t), begun.ID, pending[0].AskedAt // an event's data has none
		assert.Equal(t, pending[0], shown)
		res, err := c.Result(ctx, begun)
		require.NoError(t, err)
		assert.Equal(t, turn.StateWaiting, res.State)
		live, err := c.Live(ctx, session(t))
		require.NoError(t, err)
		assert.Equal(t, client.LiveState{State: client.LiveWaiting, Turn: begun.ID}, live)
		_, err = c.Approve(ctx, client.DecideInput{
			Session: session(t), Turn: shown.ID, Request: shown.ID, ArgumentsHash: shown.ArgumentsHash})
		require.ErrorIs(t, err, client.ErrNotPending, "of another turn")
		_, err = c.Approve(ctx, client.DecideInput{
			Session: session(t), Turn: event.Turn, Request: shown.ID, ArgumentsHash: shown.ArgumentsHash, By: "a program"})
		require.NoError(t, err)
	}
	assert.Equal(t, turn.EventTurnCompleted, kinds[len(kinds)-1])
	assert.EqualValues(t, 1, effects.Load())
	res, err := c.Wait(ctx, begun)
	require.NoError(t, err)
	assert.Equal(t, "Done.", res.Answer)
	health := c.Health(ctx)
	assert.True(t, health.Ready(), "%+v", health)
	require.ErrorIs(t, c.Stop(ctx, session(t)), client.ErrNotRunning)
	found, err := c.Find(ctx, session(t), "")
	require.NoError(t, err)
	assert.Equal(t, client.Turn{Session: session(t), ID: begun.ID}, found)
	fork := client.ForkInput{Session: session(t), At: 1, ID: session(t) + "-fork"}
	forked, err := c.Fork(ctx, fork)
	require.NoError(t, err)
	assert.EqualValues(t, 1, forked.ForkSeq)
	_, err = c.Fork(ctx, fork)
	require.ErrorIs(t, err, client.ErrExists)
}

// TestToolsGetTheContextOfAMessage sends a value with a message: the turn's tools get it, and those of its subagents,
// and no prompt has it.
func TestToolsGetTheContextOfAMessage(t *testing.T) {
	t.Parallel()
	type customer struct{ Customer string }
	got := make(chan string, 2)
	note := engine.WithTool("note", "Takes a note.", func(ctx context.Context, _ struct{}) (string, error) {
		c, err := engine.RequestContext[customer](ctx)
		got <- c.Customer
		return "noted", err
	}, engine.Repeatable(), engine.Risk(turn.RiskLow))
	noting := fakellm.ToolCall{Name: "local_note", Arguments: `{}`}
	e := newEnv(t, fakellm.Cases(
		fakellm.When("two notes", fakellm.Steps(fakellm.Calls(noting, callAgent("a", "task one")), fakellm.Text("Done."))),
		fakellm.When("task one", fakellm.Steps(fakellm.Calls(noting), fakellm.Text("Noted.")))), agents)
	e.work(note)
	c := e.dialled()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begun, err := c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Take two notes."},
		Context: customer{"c-5e1f09c2"}})
	require.NoError(t, err)
	res, err := c.Wait(ctx, begun)
	require.NoError(t, err)
	assert.Equal(t, "Done.", res.Answer)
	require.Len(t, res.Calls, 2)
	assert.Equal(t, "local/note", res.Calls[0].Call.Tool)
	assert.Equal(t, "noted", res.Calls[0].Text)
	assert.Equal(t, []string{"c-5e1f09c2", "c-5e1f09c2"}, []string{<-got, <-got})
	for _, r := range e.model.Requests() {
		assert.NotContains(t, string(r.Body), "c-5e1f09c2")
	}
	_, err = c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "More."},
		Context: strings.Repeat("x", 4<<10)})
	require.ErrorIs(t, err, client.ErrInvalid)
}

// TestAProgramLearnsFromTemporalHowATurnEnded waits for turns that end without a turn_completed in the journal.
// The client learns from Temporal how they ended.
func TestAProgramLearnsFromTemporalHowATurnEnded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("The answer."))
	stop := e.work()
	c := e.dialled()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	message := client.SendInput{Session: session(t), Message: turn.UserMessage{ID: "m1", Text: "Ask."}}
	first, err := c.Send(ctx, message)
	require.NoError(t, err)
	e.began(first)
	res, err := c.Wait(ctx, first)
	require.NoError(t, err)
	assert.Equal(t, turn.FinishAnswered, res.FinishReason)
	again, err := c.Send(ctx, message)
	require.NoError(t, err)
	e.began(again)
	res, err = c.Wait(ctx, again)
	require.NoError(t, err)
	assert.Equal(t, "The answer.", res.Answer, "a duplicate has the answer of the first")
	stop()
	second, err := c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "And again."}})
	require.NoError(t, err)
	require.NoError(t, e.client.TerminateWorkflow(ctx, session(t), "", "a test"))
	for event, err := range c.Follow(ctx, second, -1) {
		assert.Fail(t, "no worker has begun it", "%v %v", event, err)
	}
	res, err = c.Wait(ctx, second)
	require.NoError(t, err)
	assert.Equal(t, turn.FinishTerminated, res.FinishReason)
	require.ErrorIs(t, c.Stop(ctx, session(t)), client.ErrNotRunning)
}

func TestAProgramLearnsThatItsMessageWasUndelivered(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", `{"text":"a"}`), fakellm.Text("Done.")), askToTouch)
	e.work(touching(&effects))
	c := e.dialled()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begun, err := c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Touch it."}})
	require.NoError(t, err)
	e.waits(begun.ID, 1)
	alone := client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Alone."}, Alone: true}
	_, err = c.Send(ctx, alone)
	require.ErrorIs(t, err, client.ErrBusy)
	merged, err := c.Send(ctx, client.SendInput{Session: session(t), Message: turn.UserMessage{Text: "Wait."}})
	require.NoError(t, err)
	assert.True(t, merged.Merged)
	assert.Equal(t, begun.ID, merged.ID)
	_, err = c.Result(ctx, merged)
	require.ErrorIs(t, err, client.ErrNotFound, "no turn has taken it")
	require.NoError(t, e.client.TerminateWorkflow(ctx, session(t), "", "a test"))
	for event, err := range c.Follow(ctx, merged, -1) {
		assert.Fail(t, "the message is in no turn", "%v %v", event, err)
	}
	_, err = c.Wait(ctx, merged)
	require.ErrorIs(t, err, client.ErrUndelivered)
	assert.Zero(t, effects.Load())
}
