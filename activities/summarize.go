package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// silent is the sink of a summary, which no reader follows.
type byteCounter struct{ received int64 }

func (s *byteCounter) Text(delta string) { s.received += int64(len(delta)) }

func (s *byteCounter) Reasoning(delta string) { s.received += int64(len(delta)) }

// summaryDivisors are the attempts of a summary: the second one shows the model a third of the text and asks for less.
var summaryDivisors = []int{1, 3}

// summaryBytes is how much of the conversation a request for a summary may contain, in bytes for each token of the
// context window. With four bytes to a token, that is half of it.
const summaryBytes = 2

// summarize adds a summary of the messages to the draft. If none can be made, the draft keeps what it has: it is
// truncated, and the warning says why. ask sends the n-th request, from 1; an error that it wraps in fatalError ends
// the attempt.
func (a *Activities) summarize(ctx context.Context, c turn.CompactionSettings, draft *turn.Compaction, todo []turn.Message,
	focus string, ask func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error)) error {
	previous := *draft
	tokens := turn.SummaryTokens(int64(float64(c.ContextTokens) * c.TargetRatio))
	draft.Provider = c.Model.Provider
	why := ""
	for i, tight := range summaryDivisors {
		request := turn.SummaryPrompt(c.Model, &previous, todo, focus, tokens/int64(tight),
			int(c.ContextTokens)*summaryBytes/tight)
		answer, err := ask(ctx, request, i+1)
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return fatal.error
		}
		if answer.Usage != (turn.Usage{}) {
			draft.Usage = draft.Usage.Add(spending{model: c.Model}.priced(answer.Usage))
		}
		if err == nil {
			draft.Model, draft.Summary, why = answer.Model, strings.TrimSpace(a.redact(answer.Text)), refusalOf(answer)
		} else {
			why = asTurnError(err).Message
		}
		if why == "" {
			if draft.Model == "" {
				draft.Model = c.Model.Name
			}
			// A model that ignores the bound must not undo the compaction.
			draft.Summary = turn.Truncate(draft.Summary, int(2*tokens)*4)
			return nil
		}
	}
	draft.Method, draft.Summary = turn.CompactionTruncated, previous.Summary
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

// fatalError ends an attempt to compact: the turn was stopped, the worker stops, or the attempt is repeated later.
type fatalError struct{ error }

// summarizeFor summarizes for an inference. What it has paid for is in the draft or, if it returns an error, in the
// ledger.
func (a *Activities) summarizeFor(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	c turn.CompactionSettings, draft *turn.Compaction, todo []turn.Message, clock *clock) error {
	model, err := a.modelOf(ctx, in)
	if err != nil {
		return err
	}
	in.Provider, in.Prompt.Model = c.Model.Provider, c.Model.Name
	reserved := false
	err = a.summarize(ctx, c, draft, todo, "", func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error) {
		answer, failed, err := a.askSummary(ctx, in, inf, p, c.Model.Price, n, &reserved, clock)
		if err == nil || ctx.Err() == nil && errors.As(err, new(fatalError)) {
			return answer, err
		}
		if ctx.Err() != nil {
			return answer, fatalError{a.inferenceError(ctx, ctx, in, inf, clock, "", err, 0)}
		}
		return answer, a.summaryError(ctx, in, inf, model, clock, err, failed)
	})
	if err != nil {
		for n := range summaryDivisors {
			s := spending{model: c.Model, reserved: reserved, attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt,
				Summary: n + 1, Provider: in.Provider, Model: in.Prompt.Model}}
			a.recordUsage(ctx, s, draft.Usage)
			draft.Usage = turn.Usage{}
		}
	}
	return err
}

// askSummary reserves what the n-th summary may cost and sends the request. It may take half of the time that the turn
// has left. If it fails, askSummary also returns when the model may be asked again.
func (a *Activities) askSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	price *turn.Price, n int, reserved *bool, clock *clock) (turn.Completion, failedSummary, error) {
	try, away := a.outages.Begin(modelKey(in.Provider, in.Prompt.Model))
	if away != nil {
		return turn.Completion{}, failedSummary{wait: away.For, notAsked: true}, lastError(away.Outage, in)
	}
	defer try.Drop() // the first end counts
	if err := a.reserveSummary(ctx, in, inf, p, price, n, reserved); err != nil {
		return turn.Completion{}, failedSummary{}, err
	}
	lease, err := a.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, failedSummary{}, fatalError{err}
	}
	defer lease.End(-1) // the first end counts
	budget := max((in.Budget-clock.busy())/2, time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, budget, turn.Errorf(turn.CodeLimitExceeded, nil,
		fmt.Sprintf("the model did not answer within %s", budget.Round(time.Second))))
	defer cancel()
	asked, sink := time.Now(), &byteCounter{}
	answer, err := a.model.Infer(limited, p, answering{sink, try})
	a.endLease(lease, in, answer, err)
	if err == nil {
		try.Up()
		return answer, failedSummary{}, nil
	}
	failed := failedSummary{wait: a.endTry(limited, in, try, sink.received, err, clock, asked)}
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	return answer, failed, err
}

// summaryError decides what follows a failed summary. If its model is unavailable, the whole attempt is repeated, for
// as long as a fallback would be waited for: what the provider refuses now, it would most likely refuse for the
// inference too. Then the prompt is compacted without a summary.
func (a *Activities) summaryError(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	model modelInUse, clock *clock, err error, f failedSummary) error {
	e := a.redacted(asTurnError(err))
	if !e.Code.Retryable() {
		return e
	}
	failures := 0
	if f.notAsked {
		err = a.journal.ReleaseInference(ctx, inf.Key, inf.Attempt)
	} else {
		failures, err = a.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, e.Message)
		failures -= model.failures
	}
	if err != nil {
		return fatalError{err}
	}
	now := time.Now()
	w := clock.beginWait(now)
	left := min(model.retryFor, model.fallbackAfter) - now.Sub(w.ModelSince)
	if left <= 0 || e.RetryAfter > left || w.Cuts > maxCuts || model.max != nil && failures > *model.max {
		return e
	}
	delay := min(max(f.wait, e.RetryAfter), left)
	asking := model
	asking.Provider, asking.Name = in.Provider, in.Prompt.Model
	a.showModelWait(ctx, inf, asking, e, now.Add(delay), left, clock)
	return fatalError{tryAgain(ctx, clock, e.Code, waitingText(e, now.Add(delay), now.Add(left)), delay)}
}
