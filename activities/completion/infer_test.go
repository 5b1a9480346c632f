package completion

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
		a := newRunner(t, j, silentModel{})
		require.True(t, a.prompts.TryAcquire(largePrompts))
		time.AfterFunc(wait, func() { a.prompts.Release(largePrompts) })
		began := time.Now()
		_, err := a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Prompt: turn.PromptSpec{From: 1},
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
		a := newRunner(t, j, silentModel{})
		require.True(t, a.prompts.TryAcquire(largePrompts))
		began := time.Now()
		_, err := a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Prompt: turn.PromptSpec{From: 1},
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
	a := newRunner(t, j, silentModel{})
	_, err := a.Infer(t.Context(), workflows.InferInput{Turn: "t", Step: 1, Budget: time.Minute})
	require.ErrorContains(t, err, string(turn.CodeJournalUnavailable))
	assert.Equal(t, 1, j.released)
}
