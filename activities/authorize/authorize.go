package authorize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what the decisions need of a journal.DB, which documents the methods.
type Journal interface {
	OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error)
	Taint(ctx context.Context, turnID string) (*journal.TaintSource, error)
	Grants(ctx context.Context, turnID string) ([]turn.Grant, error)
	Tenant(tenant string) *journal.DB
}

// Options are the dependencies of an Authorizer.
type Options struct {
	Journal Journal
	Frozen  *frozen.Cache
	Offers  func() map[string]string // see activities.Options
	Servers []string                 // the names of the catalogues that turns of this worker may use
	Redact  *redact.Redactor
}

// Authorizer decides about tool calls.
type Authorizer struct {
	journal Journal
	frozen  *frozen.Cache
	offers  func() map[string]string
	servers []string
	secrets *redact.Redactor
}

// New returns an Authorizer.
func New(o Options) *Authorizer {
	return &Authorizer{journal: o.Journal, frozen: o.Frozen, offers: o.Offers, servers: o.Servers, secrets: o.Redact}
}

// Authorize checks a call against the policy and the tools of its turn, as the journal has them. It returns the tool
// and whether the call needs an approval. It returns an error if the policy denies the call, if no worker offers the
// tool, or if in names another session, tenant or tool than the journal. The workflow has made the same check already,
// but its input and the activity's may be forged, so they permit nothing.
func (a *Authorizer) Authorize(ctx context.Context, in workflows.CallInput,
	call turn.ToolCall) (tool turn.Tool, needsApproval bool, err error) {
	begun, err := a.frozen.Turn(ctx, in.Turn)
	if err != nil {
		return tool, false, err
	}
	if begun.Session != in.Session || begun.Tenant != in.Tenant {
		return tool, false, turn.Errorf(turn.CodePolicyDenied, nil,
			"the call names another session or tenant than its turn has")
	}
	promptConfig, err := a.frozen.PromptConfig(ctx, begun.PromptConfig)
	if err != nil {
		return tool, false, err
	}
	if _, ok := promptConfig.Find(call.Tool); !ok {
		// RefreshTools has added the tool after the turn began. Only the workflow knows the hash of that prompt config, so
		// the tool is taken from the catalogues instead, within the turn's policy.
		catalogues, err := a.Catalogues(ctx)
		if err != nil {
			return tool, false, err
		}
		promptConfig.Descriptors = nil
		for _, c := range catalogues {
			promptConfig.Descriptors = append(promptConfig.Descriptors, c.Offered(promptConfig.Policy)...)
		}
	}
	proposals, err := a.Proposals(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step}, promptConfig,
		[]turn.ToolCall{call})
	if err != nil { // an assumed taint must not refuse the call: the activity tries again
		return tool, false, err
	}
	proposal := proposals[0]
	d, _ := promptConfig.Find(call.Tool) // empty if no worker offers the tool; its ID is then not in.Tool.ID
	if proposal.Permission == turn.Deny || d.ID != in.Tool.ID {
		return tool, false, turn.Errorf(turn.CodePolicyDenied, nil, "the turn's policy denies this call: "+proposal.Why)
	}
	return d.Pinned(), proposal.Permission == turn.Ask, nil
}

// Proposals decides for each call of a step whether it is allowed, needs an approval or is denied: by the turn's
// policy, its plan, the session's taint and, for calls that need an approval, the session's grants. An activity does
// this because the workflow has only previews of the arguments. There must be at most MaxCalls calls. If the journal
// cannot be read, Proposals returns the error and also proposals that assume a tainted session without grants, and
// that the plan refuses nothing.
func (a *Authorizer) Proposals(
	ctx context.Context, key journal.StepKey, promptConfig turn.PromptConfig, calls []turn.ToolCall,
) (proposals []turn.CallProposal, err error) {
	proposals = a.Unchecked(calls)
	var grants []turn.Grant
	grantsRead := false
	permit, tools := a.taintCheck(ctx, key, promptConfig.Policy.Taint, &err), a.toolStatus(ctx)
	byPlan := a.planCheck(ctx, key, promptConfig.Plan, &err)
	for i, c := range calls {
		d, _ := promptConfig.Find(c.Tool)
		permission, why, widest := permit(d, json.RawMessage(c.Arguments), promptConfig.Policy)
		if decided, reason := byPlan(d, c); decided != "" { // the plan decides before policy and grants
			proposals[i].Permission, proposals[i].Why = decided, turn.Truncate(reason, turn.ResultPreview)
			proposals[i].MaxGrant, proposals[i].Retry = turn.GrantNever, decided == turn.Deny
			continue
		}
		if permission == turn.Ask && !grantsRead { // read them at most once, and only if a call may need them
			var rerr error
			grants, rerr = a.journal.Grants(ctx, key.Turn)
			grantsRead, err = true, errors.Join(err, rerr)
		}
		grantsCount := promptConfig.Policy.Taint != turn.TaintStrict // strict mode accepts none, tainted or not
		if permission == turn.Ask && grantsCount && isCovered(grants, c, proposals[i].ArgumentsHash, widest) {
			permission, why = turn.Allow, ""
		}
		if permission == turn.Ask {
			if drifted := tools.driftReason(d); drifted != "" { // even an approved call would not run
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

// isCovered reports whether one of the grants allows the call. widest is the result of Policy.Permit: the widest scope
// of a grant that may replace the call's approval.
func isCovered(grants []turn.Grant, c turn.ToolCall, argumentsHash string, widest turn.GrantScope) bool {
	return slices.ContainsFunc(grants, func(g turn.Grant) bool {
		return g.Covers(c.Tool, c.Arguments, argumentsHash, widest)
	})
}

// maxGrant returns the widest grant that a user may give with the approval of a call: widest, or none in strict mode.
func maxGrant(taint turn.TaintMode, widest turn.GrantScope) turn.GrantScope {
	if taint == turn.TaintStrict {
		return turn.GrantNever
	}
	return widest
}

// taintCheck returns a function that decides a call by policy and taint. Like Policy.Permit, the function returns the
// permission, the reason, and the widest grant that can replace an approval. If the session is tainted, its transcript
// may contain instructions from an untrusted server. Every call that could change or send something then needs an
// approval, whatever the policy allows; with TaintOn, an allowed call to a host that the operator listed needs none. A
// grant then counts only for exactly these arguments or for the same host. The function reads the taint from the
// journal for the first call that depends on it; if that fails, it sets *failed and assumes a tainted session.
func (a *Authorizer) taintCheck(
	ctx context.Context, key journal.StepKey, mode turn.TaintMode, failed *error,
) func(turn.Descriptor, json.RawMessage, turn.Policy) (turn.Permission, string, turn.GrantScope) {
	var mark *journal.TaintSource // nil: the session is not tainted
	read := false
	return func(d turn.Descriptor, arguments json.RawMessage, policy turn.Policy) (
		turn.Permission, string, turn.GrantScope) {
		permission, why, widest := policy.Permit(d.Pinned(), arguments)
		listed := mode == turn.TaintOn && permission == turn.Allow && d.Hosts.Lists(arguments)
		// For these calls, the taint makes no difference.
		if permission == turn.Deny || d.ReadOnly || listed || mode != turn.TaintOn && mode != turn.TaintStrict {
			return permission, why, widest
		}
		if !read {
			var err error
			if mark, err = a.journal.Taint(ctx, key.Turn); err != nil {
				mark, *failed = &journal.TaintSource{Tool: "a server"}, err
			}
			if read = true; mark != nil && mark.Turn == key.Turn && stepOf(mark.CallID) >= key.Step {
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

// stepOf returns the step in a call ID, which is "<step>.<index>", or 0 if the ID has another form.
func stepOf(callID string) int {
	step, _, _ := strings.Cut(callID, ".")
	n, _ := strconv.Atoi(step)
	return n
}

// Unchecked converts the calls of a completion, at most MaxCalls of them, to what the workflow's history carries:
// the tool's name, the hash of the arguments and a redacted preview.
func (a *Authorizer) Unchecked(calls []turn.ToolCall) []turn.CallProposal {
	out := make([]turn.CallProposal, 0, min(len(calls), MaxCalls))
	for _, c := range CapCalls(calls) {
		hash, background := journal.HashOf([]byte(c.Arguments)), IsBackground(c)
		c.Tool, c.Arguments = turn.Truncate(c.Tool, 120), turn.Truncate(a.secrets.JSON(c.Arguments), turn.ArgumentsPreview)
		out = append(out, turn.CallProposal{ToolCall: c, ArgumentsHash: hash, Background: background})
	}
	return out
}

// MaxCalls bounds the calls of one completion, whatever the turn's limits say, because each call costs a claim and an
// activity.
const MaxCalls = journal.MaxCalls

// CapCalls returns the first MaxCalls of the calls.
func CapCalls(calls []turn.ToolCall) []turn.ToolCall { return calls[:min(len(calls), MaxCalls)] }

// IsBackground reports whether a call requests a subagent that works in the background.
func IsBackground(c turn.ToolCall) bool {
	var arguments struct {
		Background bool `json:"background"`
	}
	return strings.HasPrefix(c.Tool, turn.AgentTools) && json.Unmarshal([]byte(c.Arguments), &arguments) == nil &&
		arguments.Background
}
