package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func TestRefusalsAreTypedErrors(t *testing.T) {
	for code, want := range map[turn.Code]error{
		turn.CodeSessionBusy: ErrBusy, turn.CodeSessionEnding: ErrBusy, turn.CodeConfigInvalid: ErrInvalid, turn.CodeInputInvalid: ErrInvalid,
		turn.CodeNotWaiting: ErrNotPending, turn.CodeToolDrift: ErrArgumentsChanged, turn.CodeApprovalExpired: ErrExpired,
	} {
		err := asClientError(fmt.Errorf("updating: %w", temporal.NewApplicationError("why", string(code))))
		assert.ErrorIs(t, err, want, code)
		var refusal *turn.Error
		require.ErrorAs(t, err, &refusal, code)
		assert.Equal(t, code, refusal.Code)
		assert.Equal(t, "why", refusal.Message)
	}
	other := asClientError(temporal.NewApplicationError("why", string(turn.CodeJournalUnavailable)))
	assert.Equal(t, turn.CodeJournalUnavailable, turn.CodeOf(other), "a code without a variable")
	assert.ErrorIs(t, asClientError(serviceerror.NewNotFound("gone")), ErrNotRunning)
	assert.ErrorIs(t, asClientError(serviceerror.NewUnavailable("away")), ErrUnreachable)
}

func TestADecidedRequestComesWithItsDecision(t *testing.T) {
	stands := turn.Decision{ID: "1.0", Status: turn.StatusDenied, By: "ann", Reason: "no"}
	err := asClientError(temporal.NewApplicationError("already", string(turn.CodeNotWaiting), stands))
	var decided *DecidedError
	require.ErrorAs(t, err, &decided)
	assert.Equal(t, stands, decided.Decision)
	assert.ErrorIs(t, err, ErrAlreadyDecided)
	assert.NotErrorIs(t, err, ErrNotPending)
	assert.Equal(t, turn.CodeNotWaiting, turn.CodeOf(err))
}

func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	c, ctx := New(nil, Options{Journal: &book{}}), t.Context()
	_, sent := c.Send(ctx, SendInput{Message: turn.UserMessage{Text: "x"}})
	_, approved := c.Approve(ctx, DecideInput{})
	_, running := c.Running(ctx, "s")
	_, sessions := c.RunningSessions(ctx)
	_, list := c.Schedules().List(ctx)
	_, made := c.Schedules().Create(ctx, ScheduleInput{Name: "n", Text: "x"})
	_, deleted := c.Schedules().Delete(ctx, "n")
	for name, err := range map[string]error{
		"Send": sent, "Approve": approved, "Answer": c.Answer(ctx, DecideInput{}), "Respond": c.Respond(ctx, DecideInput{}),
		"Stop": c.Stop(ctx, "s"), "Terminate": c.Terminate(ctx, "s"), "Running": running, "RunningSessions": sessions,
		"List": list, "Create": made, "Delete": deleted,
	} {
		assert.ErrorIs(t, err, ErrUnreachable, name)
	}
	_, err := c.Schedules().Create(ctx, ScheduleInput{Name: "", Text: "x"})
	assert.ErrorIs(t, err, ErrInvalid)
}

func TestFollowReadsToTheEndOfATurn(t *testing.T) {
	b := &book{changed: make(chan struct{})}
	b.turns = map[string]journal.TurnRecord{"t": {ID: "t", Session: "s", State: turn.StateRunning}}
	b.say(turn.EventTurnStarted, "")
	b.say(turn.EventTextDelta, "one ")
	c := New(nil, Options{Journal: b})
	var text string
	for event, err := range c.Follow(t.Context(), Turn{Session: "s", ID: "t"}, 0) {
		require.NoError(t, err)
		text += event.Text
		if event.Index == 1 {
			b.say(turn.EventTextDelta, "two")
			b.say(turn.EventTurnCompleted, "")
			close(b.changed)
		}
	}
	assert.Equal(t, "one two", text)
	require.NotEmpty(t, b.followers)
	for _, ctx := range b.followers {
		assert.Error(t, ctx.Err(), "the journal still watches for it")
	}
}

func TestFollowBehindTheEndYieldsNothing(t *testing.T) {
	b := &book{turns: map[string]journal.TurnRecord{"t": {ID: "t", State: turn.StateCompleted}}}
	b.say(turn.EventTurnCompleted, "")
	c := New(nil, Options{Journal: b})
	for event, err := range c.Follow(t.Context(), Turn{ID: "t"}, 0) {
		assert.Fail(t, "something came", "%v %v", event, err)
	}
	r, err := c.Wait(t.Context(), Turn{ID: "t"})
	require.NoError(t, err)
	assert.Equal(t, turn.StateCompleted, r.State)
}

func TestFollowEndsWithItsContext(t *testing.T) {
	c := New(nil, Options{Journal: &book{changed: make(chan struct{})}})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	var last error
	for _, err := range c.Follow(ctx, Turn{ID: "not begun"}, -1) {
		last = err
	}
	assert.ErrorIs(t, last, why)
	_, err := c.Wait(ctx, Turn{ID: "not begun"})
	assert.ErrorIs(t, err, why)
}

func TestResultDoesNotWait(t *testing.T) {
	b := &book{turns: map[string]journal.TurnRecord{
		"t": {ID: "t", Session: "s", State: turn.StateWaiting, Steps: 2}}, took: map[string]string{"m": "t"}}
	c := New(nil, Options{Journal: b})
	want := workflows.Result{Version: workflows.WireVersion, Session: "s", Turn: "t", State: turn.StateWaiting, Steps: 2}
	r, err := c.Result(t.Context(), Turn{ID: "t"})
	require.NoError(t, err)
	assert.Equal(t, want, r.Result)
	r, err = c.Result(t.Context(), Turn{ID: "before", MessageID: "m", Merged: true})
	require.NoError(t, err)
	assert.Equal(t, want, r.Result, "the turn that took the message")
	_, err = c.Result(t.Context(), Turn{ID: "u"})
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = c.Result(t.Context(), Turn{ID: "t", MessageID: "n", Merged: true})
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestLiveTellsWhatARunningTurnDoes(t *testing.T) {
	b := &book{turns: map[string]journal.TurnRecord{"t": {ID: "t", Session: "s", State: turn.StateRunning}}}
	live := func(state turn.State) Live {
		l, err := ReadLive(t.Context(), b, Session{LastTurn: TurnRecord{ID: "t", State: state}})
		require.NoError(t, err)
		return l.State
	}
	assert.Equal(t, LiveInferring, live(turn.StateRunning))
	b.say(turn.EventInferenceWaiting, "openai could not answer")
	b.events[0].Data = []byte(`{"provider":"openai"}`)
	assert.Equal(t, LiveWaitingForModel, live(turn.StateRunning))
	b.say(turn.EventTextDelta, "so")
	assert.Equal(t, LiveInferring, live(turn.StateRunning))
	b.calls = []Call{{Call: turn.ToolCall{Tool: "local/a"}, Outcome: turn.OutcomeOK}, {Call: turn.ToolCall{Tool: "local/b"}}}
	assert.Equal(t, LiveCallingTools, live(turn.StateRunning))
	assert.Equal(t, LiveWaiting, live(turn.StateWaiting))
	assert.Equal(t, LiveIdle, live(turn.StateCompleted))
}

func TestHealthSaysWhatIsMissing(t *testing.T) {
	h := New(nil, Options{}).Health(t.Context())
	assert.False(t, h.Ready())
	assert.Len(t, h.Problems, 2, "neither Temporal nor a journal")
}

// book is a journal with the records of a test.
type book struct {
	Journal
	mu      sync.Mutex // guards events
	turns   map[string]journal.TurnRecord
	took    map[string]string // the turn that took each message
	events  []turn.Event
	calls   []Call
	changed chan struct{}

	followers []context.Context
}

func (b *book) say(kind turn.EventKind, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, turn.Event{Turn: "t", Index: int64(len(b.events)), Kind: kind, Text: text})
}

func (b *book) Turn(_ context.Context, id string) (journal.TurnRecord, error) {
	if rec, ok := b.turns[id]; ok {
		return rec, nil
	}
	return journal.TurnRecord{}, ErrNotFound
}

func (b *book) Delivered(ctx context.Context, _, message string) (journal.TurnRecord, error) {
	return b.Turn(ctx, b.took[message])
}

func (b *book) Messages(context.Context, string, int64, int64) ([]turn.Message, error) {
	return nil, nil
}

func (b *book) Events(_ context.Context, _ string, after int64, _ int) ([]turn.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events[min(after, int64(len(b.events))-1)+1:]), nil
}

func (b *book) Changed(ctx context.Context, _ ...journal.Topic) <-chan struct{} {
	b.followers = append(b.followers, ctx)
	return b.changed
}

func (b *book) Calls(_ context.Context, id string) ([]Call, error) {
	if _, ok := b.turns[id]; !ok {
		return nil, ErrNotFound
	}
	return b.calls, nil
}

func (b *book) LastEvent(context.Context, string) (turn.Event, error) {
	if len(b.events) == 0 {
		return turn.Event{}, ErrNotFound
	}
	return b.events[len(b.events)-1], nil
}

func (b *book) Inferences(context.Context, string) ([]journal.Inference, error) { return nil, nil }
