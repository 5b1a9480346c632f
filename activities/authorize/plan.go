package authorize

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// TurnPlan is the state of a turn's plan before a step.
type TurnPlan struct {
	plan.Progress
	calls     int // number of calls that the turn has made
	proposals int // number of plans that the model has proposed, including those that the user denied
	limits    turn.Limits
	requests  []turn.Request
}

// AfterCall returns the state of the plan after a call of this step that succeeds.
func (p TurnPlan) AfterCall(step int, call turn.ToolCall) plan.Progress {
	return journal.PlanAfter(p.Progress, journal.CallRecord{Step: step, Call: call, Outcome: turn.OutcomeOK}, p.requests)
}

// Plan reads the calls of the turn before this step, and returns the state of the plan after them.
func (a *Authorizer) Plan(ctx context.Context, key journal.StepKey) (TurnPlan, error) {
	found, err := a.journal.CallContext(ctx, journal.CallContextInput{Turn: key.Turn, Planned: true})
	if err != nil {
		return TurnPlan{}, fmt.Errorf("reading the plan: %w", err)
	}
	return a.planOf(ctx, key, found)
}

// PlanAfter returns the state of the plan after the turn's calls up to this step, of which the call callID ends with
// this result, and whether that call has changed the plan.
func (a *Authorizer) PlanAfter(ctx context.Context, key journal.StepKey, callID string,
	result turn.ToolResult) (next plan.Progress, changed bool, err error) {
	found, err := a.journal.CallContext(ctx, journal.CallContextInput{Turn: key.Turn, Planned: true})
	if err != nil {
		return next, false, fmt.Errorf("reading the plan: %w", err)
	}
	begun, err := a.frozen.Turn(ctx, key.Turn)
	if err != nil {
		return next, false, err
	}
	before := journal.PlanOf(found.Calls, found.Requests, begun.PlanAgent)
	for i, c := range found.Calls {
		if c.Call.ID == callID && c.Outcome == "" {
			found.Calls[i].Outcome, found.Calls[i].Text = result.Outcome, result.Text
		}
	}
	next = journal.PlanOf(found.Calls, found.Requests, begun.PlanAgent)
	return next, next.String() != before.String(), nil
}

// planOf returns the state of the plan before this step.
func (a *Authorizer) planOf(ctx context.Context, key journal.StepKey, c journal.CallContext) (p TurnPlan, err error) {
	begun, err := a.frozen.Turn(ctx, key.Turn)
	if err != nil {
		return p, err
	}
	calls := slices.DeleteFunc(c.Calls, func(c journal.CallRecord) bool { return c.Step >= key.Step })
	p.Progress = journal.PlanOf(calls, c.Requests, begun.PlanAgent)
	p.calls, p.limits, p.requests = len(calls), begun.Limits, c.Requests
	for _, c := range calls {
		if c.Call.Tool == plan.Tool && c.Outcome == turn.OutcomeOK {
			p.proposals++
		}
	}
	asked := 0 // approvals of plans; a plan that the user has denied has an approval and no call
	for _, r := range c.Requests {
		if r.Kind == turn.RequestApproval && r.Tool == plan.Tool && r.Step < key.Step {
			asked++
		}
	}
	p.proposals = max(p.proposals, asked)
	return p, nil
}

// planContext sets what the decision about the calls of a step depends on if the turn has a plan.
func (a *Authorizer) planContext(ctx context.Context, c *callContext, found journal.CallContext) error {
	p, err := a.planOf(ctx, c.key, found)
	if err != nil {
		return err
	}
	m, err := a.frozen.StepMessage(ctx, c.key)
	if err != nil {
		return err
	}
	c.plan, c.reflecting = &p, slices.ContainsFunc(m.ToolCalls, reflects)
	calls := make([]plan.Call, len(m.ToolCalls))
	for i, call := range m.ToolCalls {
		calls[i] = journal.PlanCall(c.key.Step, call)
	}
	c.written = p.Written(calls)
	return nil
}

// byPlan decides by the turn's plan whether a call of the step may run. It returns the zero Permit if the plan does not
// decide and policy does. confirm is what users confirm of the plan; "" means that the turn has no
// plan. If the plan cannot be read, byPlan refuses no call; the call is checked again when it is claimed.
func (c callContext) byPlan(d turn.Descriptor, call turn.ToolCall, confirm plan.Confirm) turn.Permit {
	if confirm == "" || confirm == plan.Todo && !plan.Is(d.ID) {
		return turn.Permit{}
	}
	refusal, next := "", ""
	if p := c.plan; p != nil {
		at := plan.Turn{Inference: c.key.Step, Reflects: c.reflecting, Proposals: p.proposals, Todo: confirm == plan.Todo,
			MaxInferences: p.limits.MaxSteps, MaxCalls: p.limits.MaxToolCalls, Calls: p.calls}
		refusal = p.Refuse(at, d.ID, call.Arguments, !changes(d))
		if d.ID == plan.StepTool {
			next = p.Next(call.Arguments)
		}
	}
	switch {
	case refusal != "":
		return turn.Permit{Permission: turn.Deny, Why: refusal, Retry: true}
	case d.ID == plan.Tool && confirm.Binds():
		return turn.Permit{Permission: turn.Ask, MaxGrant: turn.GrantNever, Why: c.whyConfirm()}
	case confirm == plan.ConfirmStep && next != "":
		return turn.Permit{Permission: turn.Ask, MaxGrant: turn.GrantNever, Why: next}
	case plan.Is(d.ID):
		return turn.Permit{Permission: turn.Allow}
	}
	return turn.Permit{}
}

// changes reports whether a call of a tool may change something: an agent's tool is read-only, but the agent's own
// calls need not be.
func changes(d turn.Descriptor) bool { return !d.ReadOnly || strings.HasPrefix(d.ID, turn.AgentTools) }

// whyConfirm returns why a plan needs a confirmation.
func (c callContext) whyConfirm() string {
	why := "the agent works by this plan once you allow it, and makes the calls with args as they stand; you can change it"
	if c.taint != nil {
		why += fmt.Sprintf("; the conversation contains untrusted output of %s", c.taint.Tool)
	}
	return why
}

// binding returns the permit of a call that policy, taint and grants permit so, in a turn whose plan users confirm. A
// call that a user has confirmed with the plan, with exactly these arguments, needs no approval of its own. A call that
// changes something and is not of the current steps needs one, whatever policy permits.
func (c callContext) binding(d turn.Descriptor, call turn.ToolCall, permit turn.Permit,
	confirm plan.Confirm) turn.Permit {
	if c.plan == nil || permit.Permission == turn.Deny || permit.Code != "" {
		return permit
	}
	due, written := c.written[call.ID]
	switch {
	case !confirm.Binds():
		return permit
	case !written && !changes(d):
		return permit
	case written && confirm == plan.ConfirmStep && c.plan.Announce(due.Step) != "":
		return mustAsk(permit, c.plan.Announce(due.Step))
	case written && !c.taintedSince():
		if _, _, confirmed := c.plan.Confirmed(); confirmed {
			return turn.Permit{Permission: turn.Allow}
		}
		return permit
	case written:
		return permit
	}
	why := c.plan.Outside(d.ID, call.Arguments)
	if why == "" && confirm == plan.ConfirmStep {
		why = c.plan.Unasked(c.plan.allowedAfter)
	}
	if why == "" {
		return permit
	}
	return mustAsk(permit, why)
}

// outOfScope returns the permit of a call that policy, taint and grants permit so, in the turn of an agent that does a
// step of a confirmed plan: a change that the step does not name needs an approval.
func outOfScope(d turn.Descriptor, call turn.ToolCall, permit turn.Permit, scopes []plan.Scope) turn.Permit {
	if permit.Permission == turn.Deny || permit.Code != "" || !changes(d) {
		return permit
	}
	for _, s := range scopes {
		if why := s.Outside(d.ID, call.Arguments); why != "" {
			return mustAsk(permit, why)
		}
	}
	return permit
}

// allowedAfter reports whether a user has allowed a call that an inference after this one requested, other than those
// of the plan's tools.
func (p TurnPlan) allowedAfter(inference int) bool {
	return slices.ContainsFunc(p.requests, func(r turn.Request) bool {
		allowed := r.Decision != nil && r.Decision.Allowed
		return r.Kind == turn.RequestApproval && !plan.Is(r.Tool) && r.Step > inference && allowed
	})
}

// mustAsk returns a permit that asks for why, and for the reason for which permit asks already. No grant replaces the
// approval.
func mustAsk(permit turn.Permit, why string) turn.Permit {
	if permit.Permission == turn.Ask && permit.Why != "" {
		why += "; " + permit.Why
	}
	return turn.Permit{Permission: turn.Ask, MaxGrant: turn.GrantNever, Why: why}
}

// taintedSince reports whether the session was tainted after the plan had been proposed: the user who confirmed it has
// not seen the text that did.
func (c callContext) taintedSince() bool {
	if c.taint == nil {
		return false
	}
	at, inference, _ := c.plan.Confirmed()
	if c.taint.Turn == c.key.Turn {
		return stepOf(c.taint.CallID) >= inference
	}
	return c.taint.At.After(at)
}

// reflects reports whether a call reflects on a plan step.
func reflects(c turn.ToolCall) bool { return c.Tool == plan.StepTool }

// PlanInstruction returns the text that tells the model the state of the plan and what to do next, or "" if there is
// no plan yet.
func (p TurnPlan) PlanInstruction() string {
	if len(p.Steps) == 0 {
		return ""
	}
	return p.Instruction()
}

// DueCalls returns the calls that the plan itself makes in place of an inference, as a provider would send them: with
// the wire names of their tools. They are checked like those of a model.
func (p TurnPlan) DueCalls(promptConfig turn.PromptConfig, step int) (calls []turn.ToolCall) {
	for i, due := range p.Due() {
		name := due.Tool
		if d, ok := promptConfig.Find(name); ok {
			name = d.Wire
		}
		calls = append(calls, turn.ToolCall{WireID: turn.PlanCallID(step, i), Tool: name, Arguments: due.Arguments})
	}
	return calls
}

// ToolOf returns the ID of the turn's tool that a plan names by its ID or its wire name, or name itself if there is
// none.
func ToolOf(promptConfig turn.PromptConfig, name string) string {
	for _, d := range promptConfig.Descriptors {
		if d.Wire == name {
			return d.ID
		}
	}
	return name
}
