package completion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// stoppedProposal returns the proposal for a completion that ended before it was complete, with its text and its
// calls, none of which runs. If the completion was cut at the limit of output tokens in the middle of an action, the
// proposal is also invalid, so that the workflow can ask the model for less.
func (r *Runner) stoppedProposal(in workflows.InferInput, promptConfig turn.PromptConfig,
	answer turn.Completion) turn.Proposal {
	partial := turn.ParsePartial(in.Prompt.Mode, in.Step, answer, promptConfig.Tools())
	text := r.secrets.String(partial.Text)
	p := turn.Proposal{Kind: turn.ProposeStopped, Stop: answer.Stop(), Calls: r.authorizer.Proposed(partial.Calls),
		Text: turn.Truncate(text, turn.AnswerInline), Truncated: len(text) > turn.AnswerInline}
	if partial.Action && p.Stop == turn.StopLength {
		p.Invalid = &turn.InvalidAction{Step: in.Step, Kind: turn.InvalidTruncated,
			Reason: "it was cut at the limit of output tokens before it was complete; answer with less, or in several smaller " +
				"steps"}
	}
	return p
}

// proposal parses a completion and returns what the workflow does next: give an answer, make calls, ask a question, or
// reprompt because something is invalid. Calls are checked against the turn's tools, schemas and policy.
func (r *Runner) proposal(ctx context.Context, in workflows.InferInput, promptConfig turn.PromptConfig,
	answer turn.Completion) turn.Proposal {
	if answer.Stop() != "" {
		return r.stoppedProposal(in, promptConfig, answer)
	}
	action, err := turn.Parse(in.Prompt.Mode, in.Step, answer, promptConfig.Tools())
	if err != nil {
		return r.invalidProposal(err, nil)
	}
	switch act := action.(type) {
	case turn.Final:
		text := r.secrets.String(finalText(promptConfig, act.Text))
		p := turn.Proposal{Kind: turn.ProposeFinal}
		if err := r.checkOutput(in.Step, promptConfig, act.Text); err != nil {
			p = r.invalidProposal(err, nil) // with the text, for a turn that ends without a valid answer
		}
		p.Text, p.Truncated = turn.Truncate(text, turn.AnswerInline), len(text) > turn.AnswerInline
		return p
	case turn.AskUser:
		return turn.Proposal{Kind: turn.ProposeAsk, Question: turn.Truncate(r.secrets.String(act.Question), turn.AnswerInline)}
	case turn.CallTools:
		key := journal.StepKey{Turn: in.Turn, Step: in.Step}
		if err := r.checkCalls(ctx, key, promptConfig, act.Calls, answer.Text); err != nil {
			return r.invalidProposal(err, act.Calls)
		}
		text := ""
		if in.Prompt.Mode != turn.ModeJSON || answer.Plan {
			text = turn.Truncate(r.secrets.String(answer.Text), turn.ResultPreview)
		}
		permits, err := r.authorizer.Permits(ctx, key, promptConfig, act.Calls)
		if err != nil { // the completion is settled: an approval that may be unnecessary is safe
			attempt.LogFailure(ctx, attempt.AsTurnError(err))
		}
		return turn.Proposal{Kind: turn.ProposeCalls, Text: text, Calls: r.authorizer.Proposed(act.Calls),
			Permits: permits}
	}
	return r.invalidProposal(&turn.InvalidAction{Step: in.Step, Kind: turn.InvalidUnknownType,
		Reason: "the completion is of an unknown kind"}, nil)
}

// invalidProposal returns the proposal for a completion that err, normally a *turn.InvalidAction, says is invalid.
func (r *Runner) invalidProposal(err error, calls []turn.ToolCall) turn.Proposal {
	var inv *turn.InvalidAction
	if !errors.As(err, &inv) {
		inv = &turn.InvalidAction{Reason: err.Error()}
	}
	kept := *inv
	kept.Arguments, kept.Raw = r.secrets.String(kept.Arguments), r.secrets.String(kept.Raw)
	return turn.Proposal{Kind: turn.ProposeInvalid, Invalid: &kept, Calls: r.authorizer.Proposed(calls)}
}

// checkCalls returns a *turn.InvalidAction if there are more than authorize.MaxCalls calls, or for the first one that
// cannot run as it is: of a tool that the turn does not have, or with arguments that do not fit. raw is the
// completion's text, for the error. It returns nil if all can run.
func (r *Runner) checkCalls(ctx context.Context, key journal.StepKey, promptConfig turn.PromptConfig,
	calls []turn.ToolCall, raw string) error {
	if len(calls) > authorize.MaxCalls {
		return &turn.InvalidAction{Step: key.Step, Kind: turn.InvalidTooManyCalls,
			Reason: fmt.Sprintf("it requests %d calls at once; the maximum is %d", len(calls), authorize.MaxCalls)}
	}
	for _, c := range calls {
		if inv := r.checkCall(ctx, key.Turn, promptConfig, c); inv != nil {
			inv.Step, inv.Name, inv.Raw = key.Step, turn.Truncate(c.Tool, 80), turn.Truncate(raw, turn.ArgumentsPreview)
			inv.Arguments, inv.Reason = turn.Truncate(c.Arguments, turn.ArgumentsPreview), turn.Truncate(inv.Reason, 500)
			return inv
		}
	}
	return nil
}

// checkCall returns why a call cannot run as it is, or nil if it can.
func (r *Runner) checkCall(ctx context.Context, turnID string, promptConfig turn.PromptConfig,
	c turn.ToolCall) *turn.InvalidAction {
	d, ok := promptConfig.Find(c.Tool)
	if !ok {
		reason, code := r.authorizer.MissingReason(ctx, c.Tool, promptConfig.Policy)
		kind := turn.InvalidUnknownTool
		if code != "" {
			kind = turn.InvalidUnavailableTool
		}
		return &turn.InvalidAction{Kind: kind, Reason: reason, Code: code}
	}
	if limit := r.maxArgumentBytes; limit > 0 && len(c.Arguments) > limit {
		return &turn.InvalidAction{Kind: turn.InvalidLargeArguments, Reason: fmt.Sprintf(
			"its arguments are %d bytes; the maximum is %d: send less, or in several smaller calls", len(c.Arguments), limit)}
	}
	if err := turn.CheckJSON(c.Arguments); err != nil {
		return &turn.InvalidAction{Kind: turn.InvalidArguments, Reason: "its arguments are not valid: " + err.Error()}
	}
	if err := r.checker.Check(d, json.RawMessage(c.Arguments)); err != nil {
		return &turn.InvalidAction{Kind: turn.InvalidArguments,
			Reason: "its arguments do not fit the tool's schema: " + err.Error()}
	}
	if c.Tool == plan.Tool {
		return r.checkPlan(ctx, turnID, promptConfig, c.Arguments)
	}
	return nil
}

// checkPlan returns why a step of a proposed plan cannot be carried out as written, or nil if all can be.
func (r *Runner) checkPlan(ctx context.Context, turnID string, promptConfig turn.PromptConfig,
	arguments string) *turn.InvalidAction {
	proposed, err := plan.Parse(arguments)
	if err != nil { // the plan is refused, with the reason
		return nil
	}
	begun, err := r.frozen.Turn(ctx, turnID)
	if err != nil { // the calls are checked again when the plan makes them
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
		return nil
	}
	for _, due := range proposed.Calls(begun.PlanAgent) {
		call := turn.ToolCall{Tool: authorize.ToolOf(promptConfig, due.Tool), Arguments: due.Arguments}
		if inv := r.checkCall(ctx, turnID, promptConfig, call); inv != nil {
			inv.Reason = fmt.Sprintf("step %d cannot be carried out as written with %s: %s", due.Step, due.Tool, inv.Reason)
			return inv
		}
	}
	return nil
}
