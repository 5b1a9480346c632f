package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// silent is the sink of a summary, which no reader follows.
type silent struct{}

func (silent) Text(string)      {}
func (silent) Reasoning(string) {}

// tightness are the attempts of a summary: the second one shows the model a third of the text and asks for less.
var tightness = []int{1, 3}

// summaryBytes is how much of the conversation a request for a summary may contain, in bytes for each token of the
// context window. With four bytes to a token, that is half of it.
const summaryBytes = 2

// summarize adds a summary of the messages to the draft. If none can be made, the draft keeps what it has: it is
// truncated, and the warning says why. ask sends a request; an error that it wraps in fatalError ends the attempt.
func (a *Activities) summarize(ctx context.Context, c turn.Condensing, draft *turn.Condensation, todo []turn.Message,
	focus string, ask func(context.Context, turn.Prompt) (turn.Completion, error)) error {
	previous := *draft
	tokens := turn.SummaryTokens(int64(float64(c.ContextTokens) * c.TargetRatio))
	draft.Provider = c.Model.Provider
	why := ""
	for _, tight := range tightness {
		request := turn.SummaryPrompt(c.Model, &previous, todo, focus, tokens/int64(tight),
			int(c.ContextTokens)*summaryBytes/tight)
		answer, err := ask(ctx, request)
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return fatal.error
		}
		draft.Usage = draft.Usage.Add(priced(answer.Usage, c.Model.Price))
		if err == nil {
			draft.Model, draft.Summary, why = answer.Model, strings.TrimSpace(a.redact(answer.Text)), refusalOf(answer)
		} else {
			why = asTurnError(err).Message
		}
		if why == "" {
			if draft.Model == "" {
				draft.Model = c.Model.Name
			}
			// A model that ignores the bound must not undo the condensation.
			draft.Summary = turn.Truncate(draft.Summary, int(2*tokens)*4)
			return nil
		}
	}
	draft.Method, draft.Summary = turn.CondenseTruncated, previous.Summary
	draft.Warning = turn.Truncate(a.redact("no summary: "+why), maxFailureText)
	return nil
}

// refusalOf says why a completion is no summary, or "". A summary that was cut at its limit of tokens is one.
func refusalOf(answer turn.Completion) string {
	switch stop := answer.Stop(); {
	case stop != "" && stop != turn.StopLength:
		return "the model's answer ended with " + string(stop)
	case strings.TrimSpace(answer.Text) == "":
		return "the model's answer was empty"
	}
	return ""
}

// priced returns the usage with its cost.
func priced(u turn.Usage, price *turn.Price) turn.Usage {
	switch {
	case u == turn.Usage{}:
	case price == nil:
		u.Unpriced = true
	default:
		u.Cost = price.Cost(u)
	}
	return u
}

// fatalError ends an attempt to condense: the turn was stopped, the worker stops, or the attempt is repeated later.
type fatalError struct{ error }

// summarizeFor summarizes for an inference.
func (a *Activities) summarizeFor(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	c turn.Condensing, draft *turn.Condensation, todo []turn.Message, clock *clock) error {
	in.Provider, in.Plan.Model = c.Model.Provider, c.Model.Name
	return a.summarize(ctx, c, draft, todo, "", func(ctx context.Context, p turn.Prompt) (turn.Completion, error) {
		answer, err := a.askSummary(ctx, in, inf, p, c.Model.Price, clock)
		if err == nil || ctx.Err() == nil && errors.As(err, new(fatalError)) {
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, fatalError{a.inferenceError(ctx, ctx, in, inf, clock, "", err)}
		}
		return answer, a.summaryError(ctx, in, inf, clock, err)
	})
}

// askSummary sends the request for a summary. It may take half of the time that the turn has left.
func (a *Activities) askSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	price *turn.Price, clock *clock) (turn.Completion, error) {
	if err := a.checkBudget(ctx, in, inf, p, price); err != nil {
		return turn.Completion{}, err
	}
	lease, err := a.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, fatalError{err}
	}
	defer lease.End(-1) // the first end counts
	budget := max((in.Budget-clock.busy())/2, time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, budget, turn.Errorf(turn.CodeGuardExceeded, nil,
		fmt.Sprintf("the model did not answer within %s", budget.Round(time.Second))))
	defer cancel()
	answer, err := a.model.Infer(ctx, p, silent{})
	a.endLease(lease, in, answer, err)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// checkBudget returns an error if the summary may cost more than the turn, its session or its tenant has left. The
// prompt is truncated then.
func (a *Activities) checkBudget(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	p turn.Prompt, price *turn.Price) error {
	t, err := a.begunTurn(ctx, in.Turn)
	if err != nil {
		return fatalError{err}
	}
	budget := a.budget
	if budget.Turn = t.maxCost; budget.Empty() {
		return nil
	}
	reserve := journal.ReserveInput{Price: price, Output: int64(p.MaxTokens), Least: int64(p.MaxTokens),
		Budget: budget, CheckOnly: true,
		AttemptUsage: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt, At: time.Now(),
			Usage: turn.Usage{InputTokens: maxInput(p)}}}
	_, refusal, err := a.journal.ReserveUsage(ctx, reserve)
	switch {
	case err != nil:
		return fatalError{err}
	case refusal != nil:
		return turn.Errorf(turn.CodeBudgetUsedUp, nil, refusal.String())
	}
	return nil
}

// summaryError counts the failure of a summary as one of the inference. If the inference may be retried, so is the
// whole attempt: what the provider refuses now, it would refuse for the inference too.
func (a *Activities) summaryError(ctx context.Context, in workflows.InferInput, inf journal.Inference, clock *clock,
	err error) error {
	e := asTurnError(err)
	if !e.Code.Retryable() {
		return e
	}
	message := a.redact(e.Message)
	failures, ferr := a.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, message)
	if ferr != nil {
		return fatalError{ferr}
	}
	if failures > in.RetryMax {
		return e
	}
	a.showFailure(ctx, inf.Key, inf.Attempt, message, turn.ErrorChunk{Code: e.Code})
	return fatalError{temporal.NewApplicationErrorWithOptions(message, string(e.Code),
		temporal.ApplicationErrorOptions{NextRetryDelay: e.RetryAfter, Details: []any{clock.busy(), ""}})}
}
