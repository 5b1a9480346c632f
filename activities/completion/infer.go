package completion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Infer appends the last step's results, renders the prompt, calls the model and appends its completion. If the
// journal already has the completion, Infer returns it and does not pay for another.
func (r *Runner) Infer(ctx context.Context, in workflows.InferInput) (workflows.InferResult, error) {
	if r.elsewhere.Inference != "" { // this worker runs no inferences
		return workflows.InferResult{}, workflows.Elsewhere(r.queues)
	}
	ctx = attempt.WithWork(ctx, in.Turn, in.Step, "")
	clock := attempt.StartClock(ctx)
	defer clock.Stop()
	leave, err := r.attempts.Enter(ctx, fmt.Sprintf("%s/%d", in.Turn, in.Step))
	if err != nil {
		return workflows.InferResult{}, r.attempts.Failure(ctx,
			turn.Errorf(turn.CodeWorkerUnavailable, err, "the previous attempt is still running"), clock.Busy())
	}
	defer leave()
	if err := checkBegan(clock); err != nil { // waiting for the previous attempt took too long
		return workflows.InferResult{}, r.attempts.Failure(ctx, err, clock.Busy())
	}
	ctx, release := r.attempts.Detach(attempt.WithClock(ctx, clock), in.Turn)
	defer release()
	model, err := r.modelOf(ctx, in)
	if err == nil {
		err = r.stillAway(ctx, in, model, clock)
	}
	if err != nil {
		return workflows.InferResult{}, r.attempts.Failure(ctx, err, clock.Busy())
	}
	res, err := r.infer(ctx, model.applyTo(in), model, clock)
	if err == nil && in.UsageUnknown {
		var used turn.Usage
		used, err = r.journal.Tenant(in.Tenant).TurnUsage(ctx, in.Turn)
		res.TurnUsage = &used
	}
	w := clock.ModelWait()
	res.Failures = w.CutBefore + w.Cuts
	res.Busy = clock.Busy()
	if model.position > 0 {
		res.Provider, res.Model = model.Provider, model.Name
	}
	return res, r.attempts.Failure(ctx, err, clock.Busy())
}

// infer runs one attempt of the inference with this model: it records the attempt in the journal, opens the prompt,
// sends it and settles the completion. If the step is settled already, infer returns its recorded result.
func (r *Runner) infer(ctx context.Context, in workflows.InferInput, model modelInUse,
	clock *attempt.Clock) (workflows.InferResult, error) {
	resume := attempt.PauseClock(ctx) // waiting for the journal is not working time
	inf, err := r.journal.StartInference(ctx, journal.StartInference{
		Session: in.Session, Key: journal.StepKey{Turn: in.Turn, Step: in.Step}, Expect: in.Expect,
		Outcomes: in.Outcomes, Messages: in.Messages, Provider: in.Provider, Model: in.Prompt.Model, At: time.Now(),
	})
	resume()
	if err != nil {
		return workflows.InferResult{}, err
	}
	promptConfig, err := r.frozen.PromptConfig(ctx, in.Prompt.PromptConfig)
	if err != nil {
		return workflows.InferResult{}, r.notSent(ctx, inf, err)
	}
	promptConfig.Compaction = model.compactionSettings(promptConfig.Compaction)
	if inf.Settled { // by an earlier attempt
		var used turn.Usage
		if promptConfig.Compaction != nil {
			used, err = r.journal.CompactionUsage(ctx, inf.Key)
		}
		return r.inferResult(ctx, in, promptConfig, inf, used), err
	}
	// Attempts that were neither released nor failed were interrupted: their workers died, or the journal failed.
	if inf.Attempt-inf.Released-inf.Failures > maxAttempts {
		return workflows.InferResult{}, turn.Errorf(turn.CodeInternal, nil,
			fmt.Sprintf("the inference was interrupted %d times; it is not tried again", maxAttempts))
	}
	p, leave, err := r.openPrompt(ctx, &in, inf, promptConfig, clock)
	if err != nil {
		return workflows.InferResult{}, r.notSent(ctx, inf, err)
	}
	defer leave()
	p.provider, p.api, p.cacheKey = in.Provider, model.API, cacheKey(in)
	spending, err := r.spending(ctx, in, inf, p)
	if err != nil {
		return workflows.InferResult{}, r.notSent(ctx, inf, err)
	}
	answer, lastEvents, err := r.ask(ctx, &in, inf, p, &spending, clock)
	if err != nil {
		return workflows.InferResult{}, err
	}
	resume = clock.Pause()
	defer r.large.enter(ctx, answer)()
	resume()
	res, err := r.settle(ctx, in, inf, p, answer, lastEvents, spending)
	if err != nil { // the completion must be paid for although it is not recorded
		r.recordUsage(ctx, spending, answer.Usage)
	}
	return res, err
}

// cacheKey returns a hash that identifies the session to the provider's prompt cache without revealing its ID.
func cacheKey(in workflows.InferInput) string {
	return journal.HashOf([]byte(in.Tenant + "\n" + in.Session))[:32]
}

// maxAttempts bounds the interrupted attempts of one inference: those without a recorded end, most likely because their
// workers crashed.
const maxAttempts = 25

// largeAnswer is the size, in bytes, from which a completion counts as large. See largeAnswers.
const largeAnswer = 64 << 10

// largeAnswers is a semaphore that bounds how many large completions are written to the journal at once. It saves
// memory, because a completion is copied a dozen times while it is written.
type largeAnswers chan struct{}

// enter waits up to workflows.LargeWithin for a free place if the completion is large. The returned function frees the
// place. If none becomes free, the completion is written all the same, because it is paid for.
func (l largeAnswers) enter(ctx context.Context, c turn.Completion) (leave func()) {
	if len(c.Raw) < largeAnswer {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, workflows.LargeWithin)
	defer cancel()
	select {
	case l <- struct{}{}:
		return func() { <-l }
	case <-ctx.Done():
		return func() {}
	}
}

// checkBegan returns an error if the attempt has spent so much of its activity's timeout on waiting that it could time
// out before the completion is settled. The Temporal server would then repeat the inference, and it would be paid for
// twice. The next attempt has the whole timeout again.
func checkBegan(clock *attempt.Clock) error {
	if time.Since(clock.Began) > workflows.BeforeModel {
		return turn.Errorf(turn.CodeWorkerUnavailable, nil, "the inference waited too long to begin")
	}
	return nil
}

// ask sends the prompt and streams the completion into the journal. If the provider refuses the prompt as too long,
// ask compacts it and sends it once more. The second result is the completion's last events, which the caller appends
// when it settles the completion.
func (r *Runner) ask(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	spending *spending, clock *attempt.Clock) (turn.Completion, []turn.Event, error) {
	rendered := p.render(in.Prompt)
	r.recordLostUsage(ctx, *spending, inf, rendered)
	mayCompact := !p.overflow && p.config.Compaction != nil // p.overflow: an earlier attempt has compacted it already
	answer, lastEvents, err := r.send(ctx, *in, inf, rendered, spending, clock, mayCompact)
	if !errors.Is(err, errOverflow) {
		return answer, lastEvents, err
	}
	r.recordUsage(ctx, *spending, turn.Usage{}) // a refused request costs nothing: its reservation ends
	spending.reserved = false
	spending.counted = 0 // the compacted prompt does not extend an earlier one
	if err := r.compactPrompt(ctx, in, inf, p, turn.CompactionOverflow, clock); err != nil {
		return turn.Completion{}, nil, err
	}
	return r.send(ctx, *in, inf, p.render(in.Prompt), spending, clock, false)
}

// errOverflow means that the provider refused the prompt as too long and ask may compact it and try again.
var errOverflow = errors.New("the prompt exceeds the model's context window")

// send sends the prompt once, within the fleet limits, the budgets and the turn's remaining time, and streams the
// completion. The second result is the events that are not in the journal yet; after an error they are dropped. If
// mayCompact is set and the provider refuses the prompt as too long, the error is errOverflow, and the caller ends
// the reservation.
func (r *Runner) send(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	spending *spending, clock *attempt.Clock, mayCompact bool) (turn.Completion, []turn.Event, error) {
	if err := checkBegan(clock); err != nil {
		return turn.Completion{}, nil, r.notSent(ctx, inf, err)
	}
	try, err := r.beginRequest(ctx, in, inf, clock)
	if err != nil {
		return turn.Completion{}, nil, r.notSent(ctx, inf, err)
	}
	defer try.Drop() // no effect after Up or Down
	lease, err := r.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, nil, r.notSent(ctx, inf, err)
	}
	defer lease.End(-1) // no effect after another End
	if err := r.reserve(ctx, spending, &p, clock); err != nil {
		lease.End(0)
		return turn.Completion{}, nil, r.notSent(ctx, inf, err)
	}
	timeLeft := max(in.Budget-clock.Busy(), time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, timeLeft, turn.Errorf(turn.CodeLimitExceeded, nil,
		fmt.Sprintf("the model did not answer within the %s that the turn had left", timeLeft.Round(time.Second))))
	defer cancel()
	asking, abort := context.WithCancelCause(limited) // the stream aborts the request if it cannot write its events
	defer abort(nil)
	estimatedTokens := p.Tokens()
	s := openStream(asking, r.journal, inf, in.Prompt.Mode == turn.ModeJSON, estimatedTokens, abort)
	asked := time.Now()
	answer, err := r.model.Infer(asking, r.withMedia(asking, p), answering{s, try})
	lastEvents := s.close()
	r.endLease(lease, in, answer, err)
	if err == nil {
		try.Up()
		answer.Usage, spending.latency = spending.priced(answer.Usage), time.Since(asked)
		return answer, lastEvents, nil
	}
	if mayCompact && asking.Err() == nil && turn.CodeOf(err) == turn.CodeContextOverflow {
		try.Up() // the model has answered, although with a refusal
		return answer, nil, errOverflow
	}
	wait := r.endTry(asking, in, try, s.received(), err, clock, asked)
	r.recordUsage(ctx, *spending, spending.failedUsage(p, answer, s.received()))
	return answer, nil, r.inferenceError(ctx, asking, in, inf, clock, s.partial(), err, wait)
}

// notSent records that an attempt failed with err before its request was sent, so that it does not count as one that
// was interrupted. It returns err, or the journal's error if that must be retried first: not if ctx has ended, or if a
// newer attempt or turn has replaced this one.
func (r *Runner) notSent(ctx context.Context, inf journal.Inference, err error) error {
	failed := r.journal.ReleaseInference(context.WithoutCancel(ctx), inf.Key, inf.Attempt)
	if failed == nil || ctx.Err() != nil || errors.Is(failed, journal.ErrStale) || errors.Is(failed, journal.ErrClosed) {
		return err
	}
	return failed
}

// inferenceError returns the activity's error for a request that failed with err, and records the failure in the
// journal. A stopped turn, a worker shutdown, a newer attempt and an unavailable journal do not count as failures.
// asking is the context of the request: ctx with the turn's remaining time. partial is the text that has arrived, and
// wait is the delay until the next attempt if the provider is unavailable.
func (r *Runner) inferenceError(ctx, asking context.Context, in workflows.InferInput, inf journal.Inference,
	clock *attempt.Clock, partial string, err error, wait time.Duration) error {
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError() // the stream has the text so far
	}
	if ctx.Err() != nil {
		return turn.Errorf(turn.CodeWorkerUnavailable, err, "the worker stopped in the middle of an inference")
	}
	if cause := context.Cause(asking); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // the turn's time is up, or the journal refused an event
	}
	e := r.redacted(attempt.AsTurnError(err))
	if errors.Is(err, journal.ErrStale) || errors.Is(err, journal.ErrClosed) || e.Code == turn.CodeJournalUnavailable {
		return err
	}
	model, err := r.modelOf(ctx, in)
	if err != nil {
		return err
	}
	failures, err := r.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, e.Message)
	if err != nil {
		return err
	}
	attempt.LogFailure(ctx, e)
	return r.afterFailure(ctx, inf, model, e, failedAttempt{wait, failures - model.failures, partial}, clock)
}

// redacted returns a copy of a provider's error without secrets in its message.
func (r *Runner) redacted(e *turn.Error) *turn.Error {
	clean := *e
	clean.Message = r.secrets.String(e.Message)
	return &clean
}

// settle appends the completion to the transcript as the assistant's message, with lastEvents, the events that are not
// in the journal yet. It also caches what the next inference and the step's calls will read, and shows the user an
// invalid action.
func (r *Runner) settle(ctx context.Context, in workflows.InferInput, inf journal.Inference, p *prompt,
	answer turn.Completion, lastEvents []turn.Event, spending spending) (workflows.InferResult, error) {
	m := transcribe(in, p.config, answer)
	// In JSON mode the stream shows no text, because it is protocol. The answer inside is shown now.
	if in.Prompt.Mode == turn.ModeJSON && len(m.ToolCalls) == 0 && m.Text != "" {
		lastEvents = append(lastEvents, pieces(turn.Event{Kind: turn.EventTextDelta, Text: m.Text, At: time.Now()})...)
	}
	settled, err := attempt.RetryUntilAvailable(ctx, r.attempts.SettleWithin(ctx), func(ctx context.Context) (journal.Inference, error) {
		return r.journal.SettleInference(ctx, journal.SettleInference{
			Session: in.Session, Key: inf.Key, Attempt: inf.Attempt, Base: inf.Base, Answer: answer, Message: m, Events: lastEvents,
			At: time.Now(), Provider: spending.attempt.Provider, Model: spending.attempt.Model, Latency: spending.latency,
			Reserved: spending.reserved,
		})
	})
	if err != nil {
		return workflows.InferResult{}, err
	}
	r.rememberInference(in, settled, p, inf.Base.Seq)
	r.frozen.ForgetWindows(in.Expect, inf.Base)
	if len(settled.Message.ToolCalls) > 0 { // otherwise the turn most likely ends here
		r.frozen.PutWindow(settled.Head, in.Prompt.From, append(p.messages, settled.Message))
		r.frozen.PutStep(inf.Key, settled.Head, settled.Message)
	}
	res := r.inferResult(ctx, in, p.config, settled, p.used)
	if inv := res.Proposal.Invalid; inv != nil { // the attempt is 0 because the step is settled
		r.attempts.ShowFailure(ctx, inf.Key, 0, "the model did not give a valid action: "+r.secrets.String(inv.Error()),
			turn.ErrorEvent{Code: turn.CodeInvalidAction, Invalid: inv.Kind, Tool: inv.Name})
	}
	return res, nil
}

// transcribe converts a completion to the assistant's message, with its tool calls and the text that the user reads. In
// JSON mode a message with calls has no text. An invalid completion keeps its text as it is and has no calls.
func transcribe(in workflows.InferInput, promptConfig turn.PromptConfig, answer turn.Completion) turn.Message {
	m := turn.Message{Role: turn.RoleAssistant, Text: answer.Text, TurnID: in.Turn, Step: in.Step}
	if answer.Stop() != "" { // the completion ended early
		partial := turn.ParsePartial(in.Prompt.Mode, in.Step, answer, promptConfig.Tools())
		if m.ToolCalls = authorize.CapCalls(partial.Calls); partial.Text != "" || len(m.ToolCalls) > 0 {
			m.Text = partial.Text
		}
		return m
	}
	action, err := turn.Parse(in.Prompt.Mode, in.Step, answer, promptConfig.Tools())
	if err != nil {
		return m
	}
	switch act := action.(type) {
	case turn.Final:
		m.Text = finalText(promptConfig, act.Text)
	case turn.AskUser:
		m.Text = act.Question
	case turn.CallTools:
		m.ToolCalls = authorize.CapCalls(act.Calls)
		if in.Prompt.Mode == turn.ModeJSON {
			m.Text = ""
		}
	}
	return m
}

// inferResult returns the activity's result for a settled completion. It uses the completion as the journal has it, so
// that a later attempt that finds it there returns the same action. used is the usage of the inference's compactions.
func (r *Runner) inferResult(ctx context.Context, in workflows.InferInput, promptConfig turn.PromptConfig,
	inf journal.Inference, used turn.Usage) workflows.InferResult {
	return workflows.InferResult{
		Proposal: r.proposal(ctx, in, promptConfig, inf.Completion), Head: inf.Head,
		Usage:       inf.Completion.Usage.Add(inf.OtherUsage).Add(used),
		Undelivered: inf.Undelivered,
	}
}
