package completion

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// longJournal has messages of one size and counts the loaded ones.
type longJournal struct {
	wholeJournal
	bytes  int
	media  int64
	bound  int64
	mu     sync.Mutex
	loaded int
}

func (j *longJournal) PromptContext(_ context.Context, in journal.PromptContextInput) (c journal.PromptContext, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bound = in.MaxBytes
	for range in.To - in.From + 1 {
		j.loaded++
		c.Messages = append(c.Messages, turn.Message{Role: turn.RoleUser, Text: strings.Repeat("x", j.bytes),
			Media: []turn.Media{{Bytes: j.media}}})
	}
	return c, nil
}

// at returns an inference whose base is the message seq.
func at(seq int64) journal.Inference {
	return journal.Inference{Base: turn.Head{Seq: seq, Hash: "h"}}
}

func promptFrom(seq int64) *workflows.InferInput {
	return &workflows.InferInput{Prompt: turn.PromptSpec{From: seq}}
}

// TestAPromptThatNoModelTakesIsRefused checks that a prompt that is too large for every model is refused with the
// message before which the session can be forked. The turn fails at once, because a retry would read the same prompt
// again.
func TestAPromptThatNoModelTakesIsRefused(t *testing.T) {
	j := &longJournal{bytes: 1 << 20}
	_, err := newRunner(t, j, nil).loadPrompt(t.Context(), promptFrom(5), at(40), &prompt{}, attempt.StartClock(t.Context()))
	var large *journal.TooLargeError
	require.ErrorAs(t, err, &large)
	assert.Equal(t, journal.TooLargeError{Seq: 20, Max: maxPrompt}, *large)
	assert.Equal(t, int64(maxPrompt), j.bound, "the journal loads no more")
	e := attempt.AsTurnError(err)
	assert.Equal(t, turn.CodeLLMRejected, e.Code)
	assert.False(t, e.Code.Retryable())
	assert.Contains(t, e.Message, "fork the session before message 20")
}

// TestLargeImagesWaitForEachOther checks that prompts with large images wait for each other: a prompt holds its images
// in memory while the model answers.
func TestLargeImagesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, entered := newRunner(t, &longJournal{bytes: 1, media: maxMediaBytes}, nil), make(chan func(), 5)
		for range 5 {
			go func() {
				leave, err := a.loadPrompt(t.Context(), promptFrom(1), at(1), &prompt{}, attempt.StartClock(t.Context()))
				require.NoError(t, err)
				entered <- leave
			}()
		}
		synctest.Wait()
		assert.Len(t, entered, 3)
		for range 5 {
			(<-entered)()
			synctest.Wait()
		}
	})
}

// TestLargePromptsWaitForEachOther checks that large prompts wait for each other and small ones do not.
func TestLargePromptsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := newRunner(t, &longJournal{bytes: maxPrompt / 2}, nil), 0
		var entered []func()
		var mu sync.Mutex
		prompt := func(seq int64) {
			leave, err := large.loadPrompt(t.Context(), promptFrom(1), at(seq), &prompt{}, attempt.StartClock(t.Context()))
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			entered = append(entered, leave)
		}
		for range 12 {
			go prompt(1)
		}
		synctest.Wait()
		assert.Len(t, entered, 7, "with what a message takes beside its text, eight are over the bound")
		go func() { prompt(0); small++ }()
		synctest.Wait()
		assert.Equal(t, 1, small)
		for len(entered) > 0 {
			mu.Lock()
			leave := entered[0]
			entered = entered[1:]
			mu.Unlock()
			leave()
			synctest.Wait()
		}
	})
}
