package completion

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// If an inference has failed permanently, the turn's next model takes over, provided that it might succeed. The journal
// records the change. The attempt then ends, and the next attempt of the activity, on any worker, uses the model that
// the journal names. The rest of the turn stays with that model: each change would lose the provider's cache, and the
// reasoning that only one model can read.

// modelInUse is the model to which an inference sends its requests, with the state of its fallbacks.
type modelInUse struct {
	turn.Model
	first     turn.Model   // the turn's first model
	position  int          // index in the turn's models; 0 is the first model
	fallbacks []turn.Model // the turn's models after this one
	failures  int          // failed attempts of the step before this model took over
	// retryFor, fallbackAfter and max say how the turn's inferences are retried: see turn.Config and turn.Limits. max is
	// the number of retries; nil means no limit.
	retryFor, fallbackAfter time.Duration
	max                     *int
}

// modelOf returns the model for the inference of a step: the turn's first model, or the fallback that has taken over.
// A turn that began before models were recorded has the model of the input and no fallback.
func (r *Runner) modelOf(ctx context.Context, in workflows.InferInput) (modelInUse, error) {
	t, err := r.frozen.Turn(ctx, in.Turn)
	if err != nil {
		return modelInUse{}, err
	}
	m := modelInUse{retryFor: t.Limits.RetryFor, fallbackAfter: t.FallbackAfter, max: t.RetryMax}
	switch len(t.Models) {
	case 0:
		m.Model = turn.Model{Provider: in.Provider, Name: in.Prompt.Model, Mode: in.Prompt.Mode}
		return m, nil
	case 1:
		if m.Model = t.Models[0]; !m.Guessed { // otherwise its mode may have changed
			return m, nil
		}
	}
	// The last change of the turn's model up to this step. Without one, its Position is 0, that of the first model.
	change, err := r.journal.ModelChange(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return modelInUse{}, err
	}
	if change.Position < 0 || change.Position >= len(t.Models) {
		return modelInUse{}, turn.NewError(turn.CodeInternal, nil, "the turn's model is not one of its models")
	}
	m.Model, m.first, m.position = t.Models[change.Position], t.Models[0], change.Position
	m.fallbacks = t.Models[change.Position+1:]
	if change.Mode != "" {
		m.Mode = change.Mode
	}
	if change.Step == in.Step {
		m.failures = change.Failures
	}
	return m, nil
}

// mightSucceed reports whether the model next might succeed although the model failed has returned e. It would not if
// the provider refused the request for a reason that holds for every model.
func mightSucceed(e *turn.Error, failed, next turn.Model) bool {
	switch e.Code {
	case turn.CodeLLMTransport, turn.CodeLLMRateLimited, turn.CodeLLMTruncated:
		return true
	case turn.CodeLLMUnauthorized:
		return next.Provider != failed.Provider
	case turn.CodeLLMRejected:
		return e.OfModel // the provider refused the model, not the request
	case turn.CodeContextOverflow:
		return failed.ContextTokens > 0 && next.ContextTokens > failed.ContextTokens
	}
	return false
}

// canFallBack reports whether there is a next model and it might succeed although this one has failed with e.
func (m modelInUse) canFallBack(e *turn.Error) bool {
	return len(m.fallbacks) > 0 && mightSucceed(e, m.Model, m.fallbacks[0])
}

// fallBack records in the journal that the next model takes over from the one that failed with e, and returns the
// activity's error, after which the Temporal server begins the next attempt. It returns nil if no model can take over.
func (r *Runner) fallBack(ctx context.Context, inf journal.Inference, m modelInUse, e *turn.Error,
	clock *attempt.Clock) error {
	if !m.canFallBack(e) {
		return nil
	}
	next := m.fallbacks[0]
	text := fmt.Sprintf("%s:%s failed, %s:%s takes over: %s", m.Provider, m.Name, next.Provider, next.Name, e.Message)
	err := r.journal.ChangeModel(ctx, inf.Key, inf.Attempt,
		turn.Event{Text: turn.Truncate(text, attempt.MaxFailureText), At: time.Now()},
		turn.ModelEvent{Provider: next.Provider, Model: next.Name, Position: m.position + 1, Code: e.Code,
			FromProvider: m.Provider, FromModel: m.Name, FittedSettings: next.Fitted})
	if err != nil {
		return err
	}
	clock.EndWait()
	return retryLater(ctx, clock, e.Code, e.Message, nextModelAfter)
}

// withoutTools records in the journal that the rest of the turn describes its tools in the prompt, because the model,
// which the list of models lacks, takes no native ones. It returns the activity's error, after which the Temporal
// server begins the next attempt.
func (r *Runner) withoutTools(ctx context.Context, inf journal.Inference, m modelInUse, e *turn.Error,
	clock *attempt.Clock) error {
	text := fmt.Sprintf("%s:%s takes no tools; it gets them described, and answers with JSON actions", m.Provider, m.Name)
	err := r.journal.ChangeModel(ctx, inf.Key, inf.Attempt,
		turn.Event{Text: turn.Truncate(text, attempt.MaxFailureText), At: time.Now()},
		turn.ModelEvent{Provider: m.Provider, Model: m.Name, Position: m.position, Code: e.Code, FromProvider: m.Provider,
			FromModel: m.Name, Mode: turn.ModeJSON, FittedSettings: m.Fitted})
	if err != nil {
		return err
	}
	clock.EndWait()
	return retryLater(ctx, clock, e.Code, e.Message, nextModelAfter)
}

// nextModelAfter is the delay before the attempt with the next model. It is not 0, because Temporal would then use the
// interval of the retry policy.
const nextModelAfter = 10 * time.Millisecond

// compactionSettings returns how prompts for this model, a fallback, are compacted: a copy of c in which this model and
// its context window replace those of the first model, if c has them. It returns nil if c is nil.
func (m modelInUse) compactionSettings(c *turn.CompactionSettings) *turn.CompactionSettings {
	if c == nil {
		return nil
	}
	settings := *c
	if settings.Model.Provider == m.first.Provider && settings.Model.Name == m.first.Name {
		settings.Model = m.Model
	}
	if settings.ContextTokens == m.first.ContextTokens {
		settings.ContextTokens = m.ContextTokens
	}
	return &settings
}
