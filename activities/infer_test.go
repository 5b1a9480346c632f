package activities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// failingJournal starts every inference with a large prompt and counts the attempts that failed or were never sent.
type failingJournal struct {
	*longJournal
	failures, released int
}

func (*failingJournal) TurnConfig(context.Context, string) (journal.TurnConfig, error) {
	return journal.TurnConfig{Config: []byte(`{}`)}, nil
}

func (*failingJournal) StartInference(context.Context, journal.StartInference) (journal.Inference, error) {
	inf := at(1)
	inf.Attempt = 1
	return inf, nil
}

func (*failingJournal) GetBlob(context.Context, string) ([]byte, error) { return []byte("{}"), nil }

func (j *failingJournal) FailInference(context.Context, journal.StepKey, int, turn.Code, string) (int, error) {
	j.failures++
	return j.failures, nil
}

func (j *failingJournal) ReleaseInference(context.Context, journal.StepKey, int) error {
	j.released++
	return nil
}

func (*failingJournal) AppendEvents(context.Context, journal.StepKey, int, []turn.Event) error {
	return nil
}

// silentModel never answers.
type silentModel struct{}

func (silentModel) Infer(ctx context.Context, _ turn.Prompt, _ turn.Sink) (turn.Completion, error) {
	<-ctx.Done()
	return turn.Completion{}, ctx.Err()
}

func (silentModel) Takes(turn.Prompt, string) bool { return false }

// TestWaitingForMemoryIsNotWorkingTime checks an inference with a large prompt that waits until there is memory for it:
// the model still gets the whole budget, and the wait is not reported as working time.
func TestWaitingForMemoryIsNotWorkingTime(t *testing.T) {
	const wait, budget = workflows.PromptWithin - time.Second, 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		j := &failingJournal{longJournal: &longJournal{bytes: largePrompt}}
		a, err := New(Options{Journal: j, Model: silentModel{}, CacheBytes: 1})
		require.NoError(t, err)
		require.True(t, a.prompts.TryAcquire(largePrompts))
		time.AfterFunc(wait, func() { a.prompts.Release(largePrompts) })
		began := time.Now()
		_, err = a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Prompt: turn.PromptSpec{From: 1},
			Budget: budget})
		assert.Equal(t, wait+budget, time.Since(began))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, string(turn.CodeLimitExceeded), app.Type())
		var busy time.Duration
		var partial string
		require.NoError(t, app.Details(&busy, &partial))
		assert.Equal(t, budget, busy)
	})
}

// TestAnInferenceWithoutMemoryIsRetried checks that an inference that gets no memory for its prompt in time ends with
// an error that the server retries and that does not count as a failure of the model. Otherwise the activity could time
// out while the model answers, and another worker would pay for the answer again.
func TestAnInferenceWithoutMemoryIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingJournal{longJournal: &longJournal{bytes: largePrompt}}
		a, err := New(Options{Journal: j, Model: silentModel{}, CacheBytes: 1})
		require.NoError(t, err)
		require.True(t, a.prompts.TryAcquire(largePrompts))
		began := time.Now()
		_, err = a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Prompt: turn.PromptSpec{From: 1},
			Budget: time.Minute})
		assert.Equal(t, workflows.PromptWithin, time.Since(began))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.False(t, app.NonRetryable())
		assert.Equal(t, string(turn.CodeWorkerUnavailable), app.Type())
		assert.Zero(t, j.failures)
		assert.Equal(t, 1, j.released, "an attempt that was never sent was not paid for")
	})
}

// blindJournal cannot read prompt configs.
type blindJournal struct{ failingJournal }

func (*blindJournal) GetBlob(context.Context, string) ([]byte, error) {
	return nil, errors.New("it is locked")
}

// TestAnInferenceWithoutItsPromptConfigIsNotInterrupted checks that an attempt whose prompt config cannot be read
// counts as one that was never sent.
func TestAnInferenceWithoutItsPromptConfigIsNotInterrupted(t *testing.T) {
	j := &blindJournal{failingJournal{longJournal: &longJournal{}}}
	a, err := New(Options{Journal: j, Model: silentModel{}})
	require.NoError(t, err)
	_, err = a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Budget: time.Minute})
	require.ErrorContains(t, err, string(turn.CodeJournalUnavailable))
	assert.Equal(t, 1, j.released)
}

// forgetfulJournal commits the first claim and loses the reply.
type forgetfulJournal struct {
	readyJournal
	claims []journal.ClaimInput
}

func (j *forgetfulJournal) ClaimCall(_ context.Context, in journal.ClaimInput) (journal.Claim, error) {
	if j.claims = append(j.claims, in); len(j.claims) == 1 {
		return journal.Claim{}, errors.New("connection reset by peer")
	}
	return journal.Claim{State: journal.ClaimGranted}, nil
}

func (*forgetfulJournal) SettleCall(context.Context, journal.SettleInput) (journal.CallRecord, error) {
	return journal.CallRecord{}, errors.New("database is locked")
}

// doneTool is a tool whose calls succeed.
type doneTool struct{ unsent }

func (doneTool) Call(context.Context, turn.ToolRequest) (turn.ToolResult, error) {
	return turn.ToolResult{Outcome: turn.OutcomeOK}, nil
}

// TestARepeatedClaimIsTheSameClaim checks that a claim whose reply was lost is repeated unchanged, so that the journal
// recognizes it, and that the turn is told that a call whose result cannot be recorded may have run.
func TestARepeatedClaimIsTheSameClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &forgetfulJournal{}
		a, err := New(Options{Journal: j, Tools: doneTool{}, Worker: "w"})
		require.NoError(t, err)
		in := workflows.CallInput{Call: turn.CallProposal{ToolCall: turn.ToolCall{ID: "1.0"}}, Attempt: 1,
			Timeout: time.Second, Budget: time.Minute}
		allowed(a, in)
		_, err = a.CallTool(t.Context(), in)
		require.Len(t, j.claims, 2)
		assert.Equal(t, j.claims[0], j.claims[1])
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, string(turn.CodeJournalUnavailable), app.Type())
		var busy time.Duration
		var reached bool
		require.NoError(t, app.Details(&busy, &reached))
		assert.True(t, reached)
	})
}
