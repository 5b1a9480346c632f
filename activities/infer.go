package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Infer appends the last step's results, renders the plan, calls the model and appends its completion. If the journal
// already has the completion, Infer returns it and does not pay for another.
func (a *Activities) Infer(ctx context.Context, in workflows.InferInput) (workflows.InferResult, error) {
	if a.elsewhere.Inference != "" {
		return workflows.InferResult{}, workflows.Elsewhere(a.queues)
	}
	ctx = withWork(ctx, in.Turn, in.Step, "")
	clock := startClock(ctx)
	defer clock.stop()
	leave, err := a.running.enter(ctx, fmt.Sprintf("%s/%d", in.Turn, in.Step))
	if err != nil {
		return workflows.InferResult{}, failure(ctx,
			turn.Errorf(turn.CodeLLMTransport, err, "the previous attempt is still running"), clock.busy())
	}
	defer leave()
	if err := checkBegan(clock); err != nil { // the earlier attempt took long
		return workflows.InferResult{}, failure(ctx, err, clock.busy())
	}
	ctx, release := a.detachFromAttempt(ctx, in.Turn)
	defer release()
	res, err := a.infer(ctx, in, clock)
	res.Busy = clock.busy()
	return res, failure(ctx, err, clock.busy())
}

func (a *Activities) infer(ctx context.Context, in workflows.InferInput, clock *clock) (workflows.InferResult, error) {
	inf, err := a.journal.StartInference(ctx, journal.StartInference{
		Session: in.Session, Key: journal.StepKey{Turn: in.Turn, Step: in.Step}, Expect: in.Expect,
		Outcomes: in.Outcomes, Messages: in.Messages, Model: in.Plan.Model, At: time.Now(),
		Chunks: []turn.Chunk{chunkOf(turn.ChunkPhase, "", turn.PhaseChunk{Phase: turn.PhaseLlmInfer})},
	})
	if err != nil {
		return workflows.InferResult{}, err
	}
	promptConfig, err := a.promptConfigs.get(ctx, in.Plan.PromptConfig)
	if err != nil {
		return workflows.InferResult{}, err
	}
	if inf.Settled {
		return a.inferResult(ctx, in, promptConfig, inf), nil
	}
	if inf.Attempt-inf.Released > maxAttempts {
		return workflows.InferResult{}, turn.Errorf(turn.CodeInternal, nil,
			fmt.Sprintf("the inference was interrupted %d times; it is not tried again", maxAttempts))
	}
	messages, leave, err := a.prompting(ctx, in, inf.Base, clock)
	if err != nil {
		return workflows.InferResult{}, err
	}
	defer leave()
	anchor, err := a.anchor(ctx, in)
	if err != nil {
		return workflows.InferResult{}, err
	}
	answer, rest, err := a.ask(ctx, in, inf, turn.Render(in.Plan, promptConfig, anchor, messages), clock)
	if err != nil {
		return workflows.InferResult{}, err
	}
	resume := clock.pause()
	defer a.large.enter(ctx, answer)()
	resume()
	return a.settle(ctx, in, inf, promptConfig, messages, answer, rest)
}

// maxAttempts bounds the attempts of one inference that reach the model, crashes of workers included.
const maxAttempts = 25

// largeAnswer is the size, in bytes, from which a completion counts as large. See largeAnswers.
const largeAnswer = 64 << 10

// largeAnswers bounds how many large completions are written to the journal at once: each is copied a dozen times
// meanwhile.
type largeAnswers chan struct{}

// enter waits up to workflows.LargeWithin for a free place; the returned function frees it. A small completion needs
// none. A completion that gets no place is written without one, because it is paid for.
func (l largeAnswers) enter(ctx context.Context, a turn.Completion) (leave func()) {
	if len(a.Raw) < largeAnswer {
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

// checkBegan refuses an attempt that has waited for longer than its timeout allows: it could time out before the
// completion is settled, and the server would repeat the inference and pay for it again. The next attempt has a timeout
// of its own.
func checkBegan(clock *clock) error {
	if time.Since(clock.began) > workflows.BeforeModel {
		return turn.Errorf(turn.CodeLLMTransport, nil, "the inference waited too long to begin")
	}
	return nil
}

// ask sends the prompt and streams the completion into the journal. It returns the chunks that are not appended yet.
func (a *Activities) ask(ctx context.Context, in workflows.InferInput, inf journal.Inference, p turn.Prompt,
	clock *clock) (turn.Completion, []turn.Chunk, error) {
	if err := checkBegan(clock); err != nil {
		return turn.Completion{}, nil, err
	}
	lease, err := a.admit(ctx, in, inf, p, clock)
	if err != nil {
		return turn.Completion{}, nil, err
	}
	defer lease.End(-1) // the first end counts
	budget := max(in.Budget-clock.busy(), time.Second)
	limited, cancel := context.WithTimeoutCause(ctx, budget, turn.Errorf(turn.CodeGuardExceeded, nil,
		fmt.Sprintf("the model did not answer within the %s that the turn had left", budget.Round(time.Second))))
	defer cancel()
	asking, abort := context.WithCancelCause(limited)
	defer abort(nil)
	s := openStream(asking, a.journal, inf, in.Plan.Mode == turn.ModeJSON, abort)
	answer, err := a.model.Infer(asking, a.withMedia(asking, p), s)
	rest := s.close()
	a.endLease(lease, in, answer, err)
	if err == nil {
		return answer, rest, nil
	}
	return answer, nil, a.inferenceError(ctx, asking, in, inf, clock, s.partial(), err)
}

// inferenceError decides which error a failed inference returns. A stopped turn, a worker shutdown and a newer attempt
// do not count as failures. A failure of the provider is retried at most RetryMax times over all attempts.
func (a *Activities) inferenceError(ctx, asking context.Context, in workflows.InferInput, inf journal.Inference,
	clock *clock, partial string, err error) error {
	if temporal.IsCanceledError(context.Cause(ctx)) {
		return temporal.NewCanceledError() // the stream has the text so far
	}
	if ctx.Err() != nil {
		return turn.Errorf(turn.CodeLLMTransport, err, "the worker stopped in the middle of an inference")
	}
	if cause := context.Cause(asking); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // the budget, or the journal's refusal of a chunk
	}
	e := asTurnError(err)
	if errors.Is(err, journal.ErrStale) || errors.Is(err, journal.ErrClosed) || e.Code == turn.CodeStoreUnavailable {
		return err
	}
	e = &turn.Error{Code: e.Code, Message: a.redact(e.Message), Cause: e.Cause, RetryAfter: e.RetryAfter}
	failures, ferr := a.journal.FailInference(ctx, inf.Key, inf.Attempt, e.Code, e.Message)
	if ferr != nil {
		return ferr
	}
	logFailure(ctx, e)
	final := !e.Code.Retryable() || failures > in.RetryMax
	a.showFailure(ctx, inf.Key, inf.Attempt, e.Message, turn.ErrorChunk{Code: e.Code, Final: final})
	message := e.Message
	if final && e.Code.Retryable() && failures > 1 {
		message = fmt.Sprintf("%s (tried %d times)", message, failures)
	}
	if e.Code != turn.CodeGuardExceeded { // otherwise the turn's time is up, and the text so far is its partial result
		partial = ""
	}
	return temporal.NewApplicationErrorWithOptions(message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: final, NextRetryDelay: e.RetryAfter,
		Details: []any{clock.busy(), turn.Truncate(partial, turn.AnswerInline)},
	})
}

// settle appends the completion in its final form to the transcript.
func (a *Activities) settle(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	promptConfig turn.PromptConfig,
	messages []turn.Message, answer turn.Completion, rest []turn.Chunk) (workflows.InferResult, error) {
	m := transcribe(in, promptConfig, answer)
	if in.Plan.Mode == turn.ModeJSON && len(m.ToolCalls) == 0 && m.Text != "" {
		rest = append(rest, pieces(turn.Chunk{Kind: turn.ChunkTextDelta, Text: m.Text, At: time.Now()})...)
	}
	settled, err := retryUntilAvailable(ctx, settleWithin(ctx), func(ctx context.Context) (journal.Inference, error) {
		return a.journal.SettleInference(ctx, journal.SettleInference{
			Session: in.Session, Key: inf.Key, Attempt: inf.Attempt, Answer: answer, Message: m, Chunks: rest, At: time.Now(),
		})
	})
	if err != nil {
		return workflows.InferResult{}, err
	}
	settled.Failures = inf.Failures
	a.windows.put(settled.Head, in.Plan.From, append(messages, settled.Message), in.Expect.Hash)
	if len(settled.Message.ToolCalls) > 0 {
		a.windows.put(stepHead(inf.Key), 0, []turn.Message{settled.Message}, "")
	}
	return a.inferResult(ctx, in, promptConfig, settled), nil
}

// transcribe converts a completion into the assistant's message: tool calls if it asks for them, otherwise the text
// that the user reads.
func transcribe(in workflows.InferInput, promptConfig turn.PromptConfig, answer turn.Completion) turn.Message {
	m := turn.Message{Role: turn.RoleAssistant, Text: answer.Text, TurnID: in.Turn, Step: in.Step}
	if answer.Stop() != "" {
		partial := turn.ParsePartial(in.Plan.Mode, in.Step, answer, toolsOf(promptConfig))
		if m.ToolCalls = atMost(partial.Calls); partial.Text != "" || len(m.ToolCalls) > 0 {
			m.Text = partial.Text
		}
		return m
	}
	action, err := turn.Parse(in.Plan.Mode, in.Step, answer, toolsOf(promptConfig))
	if err != nil {
		return m
	}
	switch act := action.(type) {
	case turn.Final:
		m.Text = act.Text
	case turn.AskUser:
		m.Text = act.Question
	case turn.CallTools:
		m.ToolCalls = atMost(act.Calls)
		if in.Plan.Mode == turn.ModeJSON {
			m.Text = ""
		}
	}
	return m
}

func toolsOf(p turn.PromptConfig) []turn.Tool {
	tools := make([]turn.Tool, len(p.Descriptors))
	for i, d := range p.Descriptors {
		tools[i] = d.Pinned()
	}
	return tools
}

// inferResult returns the same result for a completion that was just settled and for one found in the journal.
func (a *Activities) inferResult(ctx context.Context, in workflows.InferInput, promptConfig turn.PromptConfig,
	inf journal.Inference) workflows.InferResult {
	return workflows.InferResult{
		Proposal: a.proposal(ctx, in, promptConfig, inf.Completion), Head: inf.Head, Usage: inf.Completion.Usage,
		Failures: inf.Failures, Undelivered: inf.Undelivered,
	}
}

// stoppedProposal returns the text and the calls of a completion that ended before it was complete. If it was cut
// inside an action, the workflow may reprompt for smaller steps.
func (a *Activities) stoppedProposal(in workflows.InferInput, promptConfig turn.PromptConfig,
	answer turn.Completion) turn.Proposal {
	partial := turn.ParsePartial(in.Plan.Mode, in.Step, answer, toolsOf(promptConfig))
	text := a.redact(partial.Text)
	p := turn.Proposal{Kind: turn.ProposeStopped, Stop: answer.Stop(), Calls: a.callProposals(partial.Calls),
		Text: turn.Truncate(text, turn.AnswerInline), Truncated: len(text) > turn.AnswerInline}
	if partial.Action && p.Stop == turn.StopLength {
		p.Invalid = &turn.InvalidAction{Step: in.Step,
			Reason: "it was cut at the limit of output tokens before it was complete; answer with less, or in several smaller " +
				"steps"}
	}
	return p
}

// proposal parses the completion and checks its calls against the tools of the turn config, before anything is claimed.
func (a *Activities) proposal(ctx context.Context, in workflows.InferInput, promptConfig turn.PromptConfig,
	answer turn.Completion) turn.Proposal {
	if answer.Stop() != "" {
		return a.stoppedProposal(in, promptConfig, answer)
	}
	action, err := turn.Parse(in.Plan.Mode, in.Step, answer, toolsOf(promptConfig))
	if err != nil {
		return a.invalid(err, nil)
	}
	switch act := action.(type) {
	case turn.Final:
		text := a.redact(act.Text)
		return turn.Proposal{Kind: turn.ProposeFinal, Text: turn.Truncate(text, turn.AnswerInline),
			Truncated: len(text) > turn.AnswerInline}
	case turn.AskUser:
		return turn.Proposal{Kind: turn.ProposeAsk, Question: turn.Truncate(a.redact(act.Question), turn.AnswerInline)}
	case turn.CallTools:
		if err := a.checkCalls(ctx, in.Step, promptConfig, act.Calls, answer.Text); err != nil {
			return a.invalid(err, act.Calls)
		}
		text := ""
		if in.Plan.Mode != turn.ModeJSON {
			text = turn.Truncate(a.redact(answer.Text), turn.ResultPreview)
		}
		proposals, err := a.applyPolicy(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step}, promptConfig, act.Calls)
		if err != nil { // the completion is settled: an approval that may be unnecessary is safe
			logFailure(ctx, asTurnError(err))
		}
		return turn.Proposal{Kind: turn.ProposeCalls, Text: text, Calls: proposals}
	}
	return a.invalid(&turn.InvalidAction{Step: in.Step, Reason: "the completion is of an unknown kind"}, nil)
}

func (a *Activities) invalid(err error, calls []turn.ToolCall) turn.Proposal {
	var inv *turn.InvalidAction
	if !errors.As(err, &inv) {
		inv = &turn.InvalidAction{Reason: err.Error()}
	}
	kept := *inv
	kept.Arguments, kept.Raw = a.redact(kept.Arguments), a.redact(kept.Raw)
	return turn.Proposal{Kind: turn.ProposeInvalid, Invalid: &kept, Calls: a.callProposals(calls)}
}

// maxCalls bounds the calls of one completion, whatever the turn's limits say: each is a claim and an activity.
const maxCalls = journal.MaxCalls

// atMost returns the first maxCalls calls.
func atMost(calls []turn.ToolCall) []turn.ToolCall { return calls[:min(len(calls), maxCalls)] }

// checkCalls returns an error for the first call that cannot run as it is.
func (a *Activities) checkCalls(ctx context.Context, step int, promptConfig turn.PromptConfig, calls []turn.ToolCall,
	raw string) error {
	if len(calls) > maxCalls {
		return &turn.InvalidAction{Step: step,
			Reason: fmt.Sprintf("it requests %d calls at once; the maximum is %d", len(calls), maxCalls)}
	}
	for _, c := range calls {
		reason, code := "", turn.Code("")
		if d, ok := find(promptConfig, c.Tool); !ok {
			reason, code = a.toolStatus(ctx).missing(c.Tool, promptConfig.Policy)
		} else if err := turn.CheckJSON(c.Arguments); err != nil {
			reason = "its arguments are not valid: " + err.Error()
		} else if err := a.tools.Check(d, json.RawMessage(c.Arguments)); err != nil {
			reason = "its arguments do not fit the tool's schema: " + err.Error()
		}
		if reason != "" {
			return &turn.InvalidAction{Step: step, Name: turn.Truncate(c.Tool, 80),
				Arguments: turn.Truncate(c.Arguments, turn.ArgumentsPreview),
				Reason:    turn.Truncate(reason, 500), Code: code, Raw: turn.Truncate(raw, turn.ArgumentsPreview)}
		}
	}
	return nil
}

func find(p turn.PromptConfig, id string) (turn.Descriptor, bool) {
	for _, d := range p.Descriptors {
		if d.ID == id {
			return d, true
		}
	}
	return turn.Descriptor{}, false
}
