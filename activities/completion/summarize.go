package completion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// byteCounter is the turn.Sink of a summary, which users do not see. It only counts the bytes that arrive, and calls
// up, because the model answers.
type byteCounter struct {
	received int64
	up       func()
}

func (s *byteCounter) Text(delta string) { s.up(); s.received += int64(len(delta)) }

func (s *byteCounter) Reasoning(delta string) { s.Text(delta) }

// summaryDivisors has a divisor for each request for a summary. The request shows the model at most the usual number of
// bytes of the conversation divided by it, and asks for at most the usual number of tokens divided by it.
var summaryDivisors = []int{1, 3}

// summaryBytes is how much of the conversation a request for a summary may contain, in bytes for each token of the
// context window. With four bytes to a token, it fills half of the window.
const summaryBytes = 2

// summarize adds a summary of the messages in todo to the draft. If the model gives no usable one, the draft becomes a
// truncation with the previous summary, and its warning says why. focus is what the user wants the summary to keep, or
// "". ask sends the n-th request, counted from 1. If its error is a fatalError, summarize returns the error inside;
// after any other error it goes on with the next request.
func (r *Runner) summarize(ctx context.Context, c turn.CompactionSettings, draft *turn.Compaction, todo []turn.Message,
	focus string, ask func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error)) error {
	previous := *draft
	tokens := turn.SummaryTokens(int64(float64(c.ContextTokens) * c.TargetRatio))
	draft.Provider = c.Model.Provider
	problem := "" // why the last answer is no summary
	for i, divisor := range summaryDivisors {
		request := turn.SummaryPrompt(c.Model, &previous, todo, focus, tokens/int64(divisor),
			int(c.ContextTokens)*summaryBytes/divisor)
		answer, err := ask(ctx, request, i+1)
		if answer.Usage != (turn.Usage{}) {
			draft.Usage = draft.Usage.Add(spending{model: c.Model}.priced(answer.Usage))
		}
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return fatal.error
		}
		if err == nil {
			draft.Model, draft.Summary = answer.Model, strings.TrimSpace(r.secrets.String(answer.Text))
			problem = summaryProblem(answer)
		} else {
			problem = attempt.AsTurnError(err).Message
		}
		if problem == "" {
			if draft.Model == "" {
				draft.Model = c.Model.Name
			}
			// A model may ignore the limit of tokens. At most twice the limit is kept, at four bytes per token.
			draft.Summary = turn.Truncate(draft.Summary, int(2*tokens)*4)
			return nil
		}
	}
	draft.Method, draft.Summary = turn.CompactionTruncated, previous.Summary
	draft.Warning = turn.Truncate(r.secrets.String("no summary: "+problem), attempt.MaxFailureText)
	return nil
}

// summaryProblem returns why a completion cannot be used as a summary, or "" if it can. A summary that was cut at its
// limit of tokens can be used.
func summaryProblem(answer turn.Completion) string {
	switch stop := answer.Stop(); {
	case stop != "" && stop != turn.StopLength:
		return "the model's answer ended with " + string(stop)
	case strings.TrimSpace(answer.Text) == "":
		return "the model's answer was empty"
	}
	return ""
}

// fatalError is an error of a summary that ends the activity's attempt instead of only the summary: the turn was
// stopped, the worker shuts down, or a later attempt may succeed.
type fatalError struct{ error }

// summarizeFor is summarize for the prompt of an inference. The usage of its requests is in the draft. If it returns
// an error, it records the usage in the journal itself, because the draft is then dropped.
func (r *Runner) summarizeFor(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	c turn.CompactionSettings, draft *turn.Compaction, todo []turn.Message, clock *attempt.Clock) error {
	model, err := r.modelOf(ctx, in)
	if err != nil {
		return err
	}
	in.Provider, in.Prompt.Model = c.Model.Provider, c.Model.Name // the model of summaries may be another one
	reserved := false
	err = r.summarize(ctx, c, draft, todo, "", func(ctx context.Context, p turn.Prompt, n int) (turn.Completion, error) {
		answer, failed, err := r.askSummary(ctx, in, inf, p, c.Model.Price, n, &reserved, clock)
		if err == nil || ctx.Err() == nil && errors.As(err, new(fatalError)) { // askSummary itself ends the attempt
			return answer, err
		}
		if ctx.Err() != nil { // the turn was stopped, or the worker shuts down
			return answer, fatalError{r.inferenceError(ctx, ctx, in, inf, clock, "", err, 0)}
		}
		return answer, r.summaryError(ctx, in, inf, model, clock, err, failed)
	})
	if err != nil {
		// Each request may have a reservation of its own, which recordUsage ends. The usage of all requests together is
		// recorded with the first one.
		for n := range summaryDivisors {
			s := spending{model: c.Model, reserved: reserved, attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt,
				Summary: n + 1, Provider: in.Provider, Model: in.Prompt.Model}}
			r.recordUsage(ctx, s, draft.Usage)
			draft.Usage = turn.Usage{}
		}
	}
	return err
}

// askSummary sends the n-th request for a summary of an inference's prompt, after reserving what it may cost. The
// request may take half of the time that the turn has left. If it fails, the second result says when the model may be
// asked again and whether the request was sent at all.
func (r *Runner) askSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	price *turn.Price, n int, reserved *bool, clock *attempt.Clock) (turn.Completion, failedSummary, error) {
	try, away := r.outages.Begin(in.Provider+"/"+in.Prompt.Model, clock.ModelWait().Refusals == 0)
	if away != nil {
		return turn.Completion{}, failedSummary{wait: away.For, notAsked: true}, lastError(away.Outage, in)
	}
	defer try.Drop() // no effect after Up or Down
	if err := r.reserveSummary(ctx, in, inf, p, price, n, reserved); err != nil {
		return turn.Completion{}, failedSummary{}, err
	}
	lease, err := r.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, failedSummary{}, fatalError{r.notSent(ctx, inf, err)}
	}
	defer lease.End(-1) // no effect after another End
	budget := max((in.Budget-clock.Busy())/2, time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, budget, turn.NewError(turn.CodeLimitExceeded, nil,
		fmt.Sprintf("the model did not answer within %s", budget.Round(time.Second))))
	defer cancel()
	asked, sink := time.Now(), &byteCounter{up: try.Up}
	answer, err := r.model.Infer(limited, p, sink)
	r.endLease(lease, in, answer, err)
	if err == nil {
		try.Up()
		return answer, failedSummary{}, nil
	}
	failed := failedSummary{wait: r.noteFailure(limited, in, try, sink.received, err, clock, asked)}
	s := spending{reserved: *reserved, most: turn.Usage{InputTokens: maxInput(p), OutputTokens: int64(p.MaxTokens)}}
	answer.Usage = s.failedUsage(p, answer, sink.received)
	if limited.Err() != nil {
		err = context.Cause(limited)
	}
	return answer, failed, err
}

// summaryError returns the error of a failed request for a summary. If the model of summaries is unavailable, it first
// records in the journal that the attempt has failed or, if no request was sent, releases it. The error is then a
// fatalError with which the whole attempt is repeated later, because the inference itself would most likely fail too.
// After the time for which an inference waits for a fallback, and for other failures, it is an ordinary error, and the
// prompt is compacted without a summary. model is the inference's own model.
func (r *Runner) summaryError(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	model modelInUse, clock *attempt.Clock, err error, f failedSummary) error {
	e := r.redacted(attempt.AsTurnError(err))
	if !e.Code.Retryable() {
		return e
	}
	failures := 0
	if f.notAsked {
		err = r.journal.ReleaseInference(ctx, inf.Key, inf.Attempt)
	} else {
		failures, err = r.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, e.Message)
		failures -= model.failures
	}
	if err != nil {
		return fatalError{err}
	}
	now := time.Now()
	w := clock.BeginWait(now)
	left := min(model.retryFor, model.fallbackAfter) - now.Sub(w.ModelSince)
	hasTime := left > 0 && e.RetryAfter <= left
	hasTries := w.Cuts <= maxCuts && (model.max == nil || failures <= *model.max)
	if !hasTime || !hasTries {
		return e
	}
	delay := min(max(f.wait, e.RetryAfter), left)
	summaryModel := model
	summaryModel.Provider, summaryModel.Name = in.Provider, in.Prompt.Model
	r.showModelWait(ctx, inf, summaryModel, e, now.Add(delay), left, clock)
	return fatalError{retryLater(ctx, clock, e.Code, waitingText(e, now.Add(delay), now.Add(left)), delay)}
}

// failedSummary describes a request for a summary that failed, or was not sent.
type failedSummary struct {
	wait     time.Duration // until the model may be asked again
	notAsked bool          // no request was sent, because the model is unavailable
}

// reserveSummary reserves the most that the n-th request for a summary may cost, and then sets *reserved. Without a
// budget it reserves nothing. If the turn, its session or its tenant has less than that left, it returns an ordinary
// error, and the prompt is truncated without a summary; if the journal fails, the error is a fatalError. The
// reservation ends when the compaction is settled, or in summarizeFor if that fails.
func (r *Runner) reserveSummary(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	p turn.Prompt, price *turn.Price, n int, reserved *bool) error {
	t, err := r.frozen.Turn(ctx, in.Turn)
	if err != nil {
		return fatalError{err}
	}
	budget := r.budgetOf(in, t.Limits)
	if budget.Empty() {
		return nil
	}
	reserve := summaryReserve(budget, p, price)
	reserve.Key, reserve.Attempt, reserve.Summary = inf.Key, inf.Attempt, n
	reserve.Provider, reserve.Model = in.Provider, in.Prompt.Model
	_, refusal, err := r.journal.ReserveUsage(ctx, reserve)
	switch {
	case err != nil:
		return fatalError{err}
	case refusal != nil:
		return turn.NewError(turn.CodeBudgetUsedUp, nil, refusal.String())
	}
	*reserved = true
	return nil
}

// summaryReserve returns the reservation of the most that a request for a summary may use.
func summaryReserve(budget journal.Budget, p turn.Prompt, price *turn.Price) journal.ReserveInput {
	return journal.ReserveInput{Price: price, Output: int64(p.MaxTokens), Least: int64(p.MaxTokens), Budget: budget,
		AttemptUsage: journal.AttemptUsage{At: time.Now(), Usage: turn.Usage{InputTokens: maxInput(p)}}}
}
