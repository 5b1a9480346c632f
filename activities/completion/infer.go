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
	ctx, clock, end, err := r.attempts.Begin(ctx, in.Turn, in.Step, "")
	defer end()
	if err == nil && time.Since(clock.Began) > workflows.BeforeModel { // for an earlier attempt to end
		err = waitedTooLong()
	}
	var res workflows.InferResult
	if err == nil {
		res, err = r.infer(ctx, in, clock)
	}
	if err == nil && in.UsageUnknown {
		var used turn.Usage
		used, err = r.journal.Tenant(in.Tenant).TurnUsage(ctx, in.Turn)
		res.TurnUsage = &used
	}
	w := clock.ModelWait()
	res.Failures = w.CutBefore + w.Cuts
	res.Busy = clock.Busy()
	if err != nil {
		return res, r.attempts.Failure(ctx, err, res.Busy)
	}
	return res, nil
}

// infer runs one attempt of the inference with the turn's model or the fallback that has taken over: it records the
// attempt in the journal and, unless the step is settled already, completes it. The result is that of the completion as
// the journal has it, so that a later attempt returns the same action.
func (r *Runner) infer(ctx context.Context, in workflows.InferInput,
	clock *attempt.Clock) (res workflows.InferResult, err error) {
	model, err := r.modelOf(ctx, in)
	if err == nil && !clock.ModelWait().Since.IsZero() {
		err = r.stillAway(ctx, in, model, clock)
	}
	if err != nil {
		return res, err
	}
	in.Provider, in.Prompt.Model, in.Prompt.Mode = model.Provider, model.Name, model.Mode
	resume := clock.Pause() // waiting for the journal is not working time
	inf, err := r.journal.StartInference(ctx, journal.StartInference{
		Session: in.Session, Key: journal.StepKey{Turn: in.Turn, Step: in.Step}, Expect: in.Expect,
		Outcomes: in.Outcomes, Messages: in.Messages, Provider: in.Provider, Model: in.Prompt.Model, At: time.Now(),
	})
	resume()
	if err != nil {
		return res, err
	}
	promptConfig, err := r.frozen.PromptConfig(ctx, in.Prompt.PromptConfig)
	if err != nil {
		return res, r.notSent(ctx, inf, err)
	}
	if model.position > 0 {
		promptConfig.Compaction = model.compactionSettings(promptConfig.Compaction)
		res.Provider, res.Model = model.Provider, model.Name
	}
	settledBefore := inf.Settled // by an earlier attempt
	var used turn.Usage          // by the inference's compactions
	switch {
	case !settledBefore:
		inf, used, err = r.complete(ctx, in, inf, promptConfig, model, clock)
	case promptConfig.Compaction != nil:
		used, err = r.journal.CompactionUsage(ctx, inf.Key)
	}
	if err != nil {
		return res, err
	}
	res.Proposal = r.proposal(ctx, in, promptConfig, inf.Completion)
	res.Head, res.Undelivered = inf.Head, inf.Undelivered
	res.Usage = inf.Completion.Usage.Add(inf.OtherUsage).Add(used)
	if inv := res.Proposal.Invalid; inv != nil && !settledBefore { // the attempt is 0 because the step is settled
		r.attempts.ShowFailure(ctx, inf.Key, 0, "the model did not give a valid action: "+r.secrets.String(inv.Error()),
			turn.ErrorEvent{Code: turn.CodeInvalidAction, Invalid: inv.Kind, Tool: inv.Name})
	}
	return res, nil
}

// complete opens the prompt of an attempt, sends it to the model and settles the completion, or settles the calls that
// the turn's plan makes in place of the model. It returns the settled inference and the usage of its compactions.
func (r *Runner) complete(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	promptConfig turn.PromptConfig, model modelInUse, clock *attempt.Clock) (journal.Inference, turn.Usage, error) {
	instruction, due, err := r.planOf(ctx, in, inf, promptConfig)
	if err != nil {
		return inf, turn.Usage{}, r.notSent(ctx, inf, err)
	}
	if len(due) > 0 {
		settled, err := r.dispatch(ctx, in, inf, promptConfig, due)
		return settled, turn.Usage{}, err
	}
	// Attempts that were neither released nor failed were interrupted: their workers died, or the journal failed.
	if inf.Attempt-inf.Released-inf.Failures > maxAttempts {
		return inf, turn.Usage{}, turn.NewError(turn.CodeInternal, nil,
			fmt.Sprintf("the inference was interrupted %d times; it is not tried again", maxAttempts))
	}
	p := &prompt{config: promptConfig, plan: instruction, provider: in.Provider, api: model.API, model: model.Model, first: in.Step == 1,
		// The hash identifies the session to the provider's prompt cache without revealing its ID.
		cacheKey: journal.HashOf([]byte(in.Tenant + "\n" + in.Session))[:32]}
	leave, err := r.openPrompt(ctx, &in, inf, p, clock)
	if err != nil {
		return inf, turn.Usage{}, r.notSent(ctx, inf, err)
	}
	defer leave()
	spending, err := r.spending(ctx, in, inf, p)
	if err != nil {
		return inf, turn.Usage{}, r.notSent(ctx, inf, err)
	}
	answer, lastEvents, err := r.ask(ctx, &in, inf, p, &spending, clock)
	if err != nil {
		return inf, turn.Usage{}, err
	}
	if len(answer.Raw) >= largeAnswer {
		resume := clock.Pause()
		defer r.large.enter(ctx)()
		resume()
	}
	settled, err := r.settle(ctx, in, inf, p, answer, lastEvents, spending)
	if err != nil { // the completion must be paid for although it is not recorded
		r.recordUsage(ctx, spending, answer.Usage)
	}
	return settled, p.used, err
}

// maxAttempts bounds the interrupted attempts of one inference: those without a recorded end, most likely because their
// workers crashed.
const maxAttempts = 25

// largeAnswer is the size, in bytes, from which a completion counts as large. See largeAnswers.
const largeAnswer = 64 << 10

// largeAnswers is a semaphore that bounds how many large completions are written to the journal at once. It saves
// memory, because a completion is copied a dozen times while it is written.
type largeAnswers chan struct{}

// enter waits up to workflows.LargeWithin for a free place. The returned function frees the place. If none becomes
// free, the completion is written all the same, because it is paid for.
func (l largeAnswers) enter(ctx context.Context) (leave func()) {
	ctx, cancel := context.WithTimeout(ctx, workflows.LargeWithin)
	defer cancel()
	select {
	case l <- struct{}{}:
		return func() { <-l }
	case <-ctx.Done():
		return func() {}
	}
}

// waitedTooLong returns the error of an attempt that has spent so much of its activity's timeout on waiting that it
// could time out before the completion is settled. The Temporal server would then repeat the inference, and it would be
// paid for twice. The next attempt has the whole timeout again.
func waitedTooLong() error {
	return turn.NewError(turn.CodeWorkerUnavailable, nil, "the inference waited too long to begin")
}

// ask sends the prompt and streams the completion into the journal. If the provider refuses the prompt as too long,
// ask compacts it and sends it once more. The second result is the completion's last events, which the caller appends
// when it settles the completion.
func (r *Runner) ask(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	spending *spending, clock *attempt.Clock) (turn.Completion, []turn.Event, error) {
	rendered := p.render(in.Prompt)
	if inf.Lost.Attempt > 0 {
		r.recordLostUsage(ctx, *spending, inf, rendered)
	}
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
	if time.Since(clock.Began) > workflows.BeforeModel {
		return turn.Completion{}, nil, r.notSent(ctx, inf, waitedTooLong())
	}
	if err := spending.checkWindow(p); err != nil {
		if mayCompact {
			return turn.Completion{}, nil, errOverflow
		}
		return turn.Completion{}, nil, r.inferenceError(ctx, ctx, in, inf, clock, "", err, 0)
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
	if !spending.budget.Empty() {
		if err := r.reserve(ctx, spending, &p, clock); err != nil {
			lease.End(0)
			return turn.Completion{}, nil, r.notSent(ctx, inf, err)
		}
	}
	timeLeft := max(in.Budget-clock.Busy(), time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, timeLeft, turn.NewError(turn.CodeLimitExceeded, nil,
		fmt.Sprintf("the model did not answer within the %s that the turn had left", timeLeft.Round(time.Second))))
	defer cancel()
	asking, abort := context.WithCancelCause(limited) // the stream aborts the request if it cannot write its events
	defer abort(nil)
	estimatedTokens := p.Tokens()
	s := openStream(asking, r.journal, inf, in.Prompt.Mode == turn.ModeJSON, estimatedTokens, try.Up, abort)
	asked := time.Now()
	answer, err := r.model.Infer(asking, r.withMedia(asking, p), s)
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
	wait := r.noteFailure(asking, in, try, s.received(), err, clock, asked)
	r.recordUsage(ctx, *spending, spending.failedUsage(p, answer, s.received()))
	return answer, nil, r.inferenceError(ctx, asking, in, inf, clock, s.partial(), err, wait)
}

// notSent records that an attempt failed with err before its request was sent, so that the attempt does not count as
// interrupted: it releases the inference. It returns err. If the release fails, it returns the journal's error instead,
// so that the activity is retried; but if ctx has ended, or a newer attempt or turn has taken over, it returns err.
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
		return turn.NewError(turn.CodeWorkerUnavailable, err, "the worker stopped in the middle of an inference")
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
// in the journal yet. It also caches what the next inference and the step's calls will read.
func (r *Runner) settle(ctx context.Context, in workflows.InferInput, inf journal.Inference, p *prompt,
	answer turn.Completion, lastEvents []turn.Event, spending spending) (journal.Inference, error) {
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
		return settled, err
	}
	r.rememberInference(in, settled, p, inf.Base.Seq)
	if len(settled.Message.ToolCalls) > 0 {
		r.frozen.AddWindow(settled.Head, in.Prompt.From, append(p.messages, settled.Message), in.Expect, inf.Base)
		r.frozen.AddStep(inf.Key, settled.Head, settled.Message)
	} else { // the turn most likely ends here
		r.frozen.ForgetWindows(in.Expect, inf.Base)
	}
	return settled, nil
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
		if in.Prompt.Mode == turn.ModeJSON && !answer.Plan {
			m.Text = ""
		}
	}
	return m
}
