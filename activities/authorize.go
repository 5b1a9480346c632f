package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// authorize checks a call against the policy and the tools that the journal has of its turn. It returns the tool and
// whether the claim needs an approval, or an error if the policy denies the call. The workflow has reached the same
// decision, unless its input was forged: no input of a workflow or an activity is a permission.
func (a *Activities) authorize(ctx context.Context, in workflows.CallInput,
	call turn.ToolCall) (tool turn.Tool, ask bool, err error) {
	pins, err := a.begunTurn(ctx, in.Turn)
	if err != nil {
		return tool, false, err
	}
	if pins.Session != in.Session || pins.Tenant != in.Tenant {
		return tool, false, turn.Errorf(turn.CodePolicyDenied, nil,
			"the call names another session or tenant than its turn has")
	}
	promptConfig, err := a.promptConfigs.get(ctx, pins.promptConfig)
	if err != nil {
		return tool, false, err
	}
	if _, ok := find(promptConfig, call.Tool); !ok { // its server was unavailable when the turn began
		catalogues, err := a.catalogues(ctx)
		if err != nil {
			return tool, false, err
		}
		promptConfig.Descriptors = nil
		for _, c := range catalogues {
			promptConfig.Descriptors = append(promptConfig.Descriptors, offeredOf(c, promptConfig.Policy)...)
		}
	}
	proposals, err := a.applyPolicy(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step}, promptConfig,
		[]turn.ToolCall{call})
	if err != nil { // the call may need no approval: ask the journal again
		return tool, false, err
	}
	proposal := proposals[0]
	d, _ := find(promptConfig, call.Tool)
	if proposal.Permission == turn.Deny || d.ID != in.Tool.ID {
		return tool, false, turn.Errorf(turn.CodePolicyDenied, nil, "the turn's policy denies this call: "+proposal.Why)
	}
	return d.Pinned(), proposal.Permission == turn.Ask, nil
}

// begunTurn reads what Begin recorded of a turn. It does not change while the turn runs.
func (a *Activities) begunTurn(ctx context.Context, id string) (begunTurn, error) {
	if t, ok := a.turns.Get(id); ok {
		return t, nil
	}
	rec, err := a.journal.TurnConfig(ctx, id)
	if err != nil {
		return begunTurn{}, fmt.Errorf("reading the configuration of turn %s: %w", id, behind(err))
	}
	cfg, err := decodeConfig(rec.Config)
	if err != nil {
		return begunTurn{}, err
	}
	t := begunTurnOf(rec.Session, rec.Tenant, cfg)
	a.turns.Add(id, t)
	return t, nil
}

// applyPolicy applies the turn's policy to each call, here because the workflow carries only a preview of its
// arguments. For calls that need an approval it also applies the session's grants. If the journal cannot be read, weigh
// returns the error with proposals that assume a tainted session without grants.
func (a *Activities) applyPolicy(
	ctx context.Context, key journal.StepKey, promptConfig turn.PromptConfig, calls []turn.ToolCall,
) (proposals []turn.CallProposal, err error) {
	proposals = a.callProposals(calls)
	var rules []turn.Grant
	read := false
	byTaint, tools := a.taintCheck(ctx, key, promptConfig.Policy.Taint, &err), a.toolStatus(ctx)
	byPlan := a.planCheck(ctx, key, promptConfig.Plan, &err)
	for i, c := range calls {
		d, _ := find(promptConfig, c.Tool)
		permission, why, widest := byTaint(d, json.RawMessage(c.Arguments), promptConfig.Policy)
		if decided, reason := byPlan(d, c); decided != "" {
			proposals[i].Permission, proposals[i].Why = decided, turn.Truncate(reason, turn.ResultPreview)
			proposals[i].MaxGrant, proposals[i].Retry = turn.GrantNever, decided == turn.Deny
			continue
		}
		if permission == turn.Ask && !read {
			var rerr error
			rules, rerr = a.journal.Grants(ctx, key.Turn)
			read, err = true, errors.Join(err, rerr)
		}
		if permission == turn.Ask && promptConfig.Policy.Taint != turn.TaintStrict &&
			isCovered(rules, c, proposals[i].ArgumentsHash, widest) {
			permission, why = turn.Allow, ""
		}
		if permission == turn.Ask {
			if drifted := tools.drifted(d); drifted != "" { // an approval would not help: the tool would not run
				proposals[i].Code, why = turn.CodeToolDrift, drifted
			}
			proposals[i].MaxGrant = maxGrant(promptConfig.Policy.Taint, widest)
		}
		proposals[i].Permission = permission
		if permission != turn.Allow {
			proposals[i].Why = turn.Truncate(why, turn.ResultPreview)
		}
	}
	return proposals, err
}

// isCovered reports whether a grant allows the call. widest is that of Policy.Permit.
func isCovered(rules []turn.Grant, c turn.ToolCall, argumentsHash string, widest turn.GrantScope) bool {
	return slices.ContainsFunc(rules, func(g turn.Grant) bool {
		return g.Covers(c.Tool, c.Arguments, argumentsHash, widest)
	})
}

// maxGrant returns the widest grant that an approval of the call may carry.
func maxGrant(taint turn.TaintMode, widest turn.GrantScope) turn.GrantScope {
	if taint == turn.TaintStrict {
		return turn.GrantNever
	}
	return widest
}

// taintCheck returns the function that decides whether a call of a session is allowed. If the session is tainted, its
// transcript may contain instructions from an untrusted server. Every call that could change or send something then
// needs an approval, whatever policy lists and rules allow. A grant counts only for exactly these arguments, or for a
// host that it names; in strict mode, not even then. A host that the operator listed may get what the model has read. If
// the journal cannot be read, the function sets failed and takes the session for tainted.
func (a *Activities) taintCheck(
	ctx context.Context, key journal.StepKey, mode turn.TaintMode, failed *error,
) func(turn.Descriptor, json.RawMessage, turn.Policy) (turn.Permission, string, turn.GrantScope) {
	var mark *journal.TaintSource
	asked := false
	return func(d turn.Descriptor, arguments json.RawMessage, policy turn.Policy) (
		turn.Permission, string, turn.GrantScope) {
		permission, why, widest := policy.Permit(d.Pinned(), arguments)
		listed := mode == turn.TaintOn && permission == turn.Allow && d.Hosts.Lists(arguments)
		if permission == turn.Deny || d.ReadOnly || listed || mode != turn.TaintOn && mode != turn.TaintStrict {
			return permission, why, widest
		}
		if !asked {
			var err error
			if mark, err = a.journal.Taint(ctx, key.Turn); err != nil {
				mark, *failed = &journal.TaintSource{Tool: "a server"}, err
			}
			if asked = true; mark != nil && mark.Turn == key.Turn && stepOf(mark.CallID) >= key.Step {
				mark = nil // the model had not read the tainting text when it proposed the call
			}
		}
		if mark == nil {
			return permission, why, widest
		}
		if permission == turn.Ask {
			why += "; "
		}
		why += fmt.Sprintf(
			"the conversation contains untrusted output of %s, and this call could change or send something because of it",
			mark.Tool)
		if widest != turn.GrantHost {
			widest = turn.GrantCall
		}
		return turn.Ask, why, widest
	}
}

// stepOf returns the step of a call ID, or 0 if the ID has none.
func stepOf(callID string) int {
	step, _, _ := strings.Cut(callID, ".")
	n, _ := strconv.Atoi(step)
	return n
}
