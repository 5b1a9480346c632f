package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// modelInUse is the model that an inference asks, with the state of its fallbacks.
type modelInUse struct {
	turn.Model
	first    turn.Model   // the turn's first model
	position int          // in the turn's models
	left     []turn.Model // its fallbacks
	failures int          // of the step, before this model took over
	retries
}

// modelOf returns the model that a step of the turn asks. A turn that began before models were recorded has the model
// of its plan and no fallback.
func (a *Activities) modelOf(ctx context.Context, in workflows.InferInput) (modelInUse, error) {
	t, err := a.begunTurn(ctx, in.Turn)
	if err != nil {
		return modelInUse{}, err
	}
	switch len(t.models) {
	case 0:
		return modelInUse{Model: turn.Model{Provider: in.Provider, Name: in.Prompt.Model, Mode: in.Prompt.Mode},
			retries: t.retry}, nil
	case 1:
		return modelInUse{Model: t.models[0], retries: t.retry}, nil
	}
	change, err := a.journal.ModelChange(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step})
	if err != nil {
		return modelInUse{}, err
	}
	if change.Position < 0 || change.Position >= len(t.models) {
		return modelInUse{}, turn.Errorf(turn.CodeInternal, nil, "the turn's model is not one of its models")
	}
	m := modelInUse{Model: t.models[change.Position], first: t.models[0], position: change.Position,
		left: t.models[change.Position+1:], retries: t.retry}
	if change.Step == in.Step {
		m.failures = change.Failures
	}
	return m, nil
}

// on returns the input for this model.
func (m modelInUse) on(in workflows.InferInput) workflows.InferInput {
	in.Provider, in.Prompt.Model, in.Prompt.Mode = m.Provider, m.Name, m.Mode
	return in
}

// mayHelp reports whether another model may not have the failure of this one. What a provider refuses because of the
// request itself, another one would refuse too.
func mayHelp(e *turn.Error, failed, next turn.Model) bool {
	switch e.Code {
	case turn.CodeLLMTransport, turn.CodeLLMRateLimited, turn.CodeLLMTruncated:
		return true
	case turn.CodeLLMUnauthorized:
		return next.Provider != failed.Provider
	case turn.CodeLLMRejected:
		return e.OfModel
	case turn.CodeContextOverflow:
		return failed.ContextTokens > 0 && next.ContextTokens > failed.ContextTokens
	}
	return false
}

// hasHelp reports whether a fallback is left that may not have this failure.
func (m modelInUse) hasHelp(e *turn.Error) bool {
	return len(m.left) > 0 && mayHelp(e, m.Model, m.left[0])
}

// fallBack lets the next model take over from a failed attempt, and returns the error that begins the next attempt. It
// returns nil if there is no such model.
func (a *Activities) fallBack(ctx context.Context, inf journal.Inference, m modelInUse, e *turn.Error,
	clock *clock) error {
	if !m.hasHelp(e) {
		return nil
	}
	next := m.left[0]
	text := fmt.Sprintf("%s:%s failed, %s:%s takes over: %s", m.Provider, m.Name, next.Provider, next.Name, e.Message)
	err := a.journal.ChangeModel(ctx, inf.Key, inf.Attempt,
		turn.Event{Text: turn.Truncate(text, maxFailureText), At: time.Now()},
		turn.ModelEvent{Provider: next.Provider, Model: next.Name, Position: m.position + 1, Code: e.Code,
			FromProvider: m.Provider, FromModel: m.Name})
	if err != nil {
		return err
	}
	clock.endWait()
	return tryAgain(ctx, clock, e.Code, e.Message, nextModelAfter)
}

// nextModelAfter is the pause before the next model is asked. 0 would mean the retry policy's.
const nextModelAfter = 10 * time.Millisecond
