package authorize

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what the decisions need of a journal.DB, which documents the methods.
type Journal interface {
	OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error)
	CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error)
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
		return tool, false, turn.NewError(turn.CodePolicyDenied, nil,
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
	permits, err := a.Permits(ctx, journal.StepKey{Turn: in.Turn, Step: in.Step}, promptConfig,
		[]turn.ToolCall{call})
	if err != nil { // an assumed taint must not refuse the call: the activity tries again
		return tool, false, err
	}
	permit := permits[call.ID]
	d, offered := promptConfig.Find(call.Tool)
	denied := ""
	switch {
	case !offered:
		denied = "no running worker offers this tool any more; the call was not run"
	case d.ID != in.Tool.ID:
		denied = "the call names another tool than its turn has"
	case permit.Permission != turn.Allow && permit.Permission != turn.Ask:
		denied = "the turn's policy denies this call: " + permit.Why
	}
	if denied != "" {
		return tool, false, turn.NewError(turn.CodePolicyDenied, nil, denied)
	}
	return d.Pinned(), permit.Permission == turn.Ask, nil
}

// Permits decides for each call of a step whether it is allowed, needs an approval or is denied: by the turn's policy,
// its plan, the session's taint and, for calls that need an approval, the session's grants. An activity does this
// because the workflow has only previews of the arguments. There must be at most MaxCalls calls. The permits are by
// call ID. If the journal cannot be read, Permits returns the error and also permits that assume a tainted session
// without grants, and that the plan refuses nothing.
func (a *Authorizer) Permits(
	ctx context.Context, key journal.StepKey, promptConfig turn.PromptConfig, calls []turn.ToolCall,
) (permits map[string]turn.Permit, err error) {
	permits = make(map[string]turn.Permit, len(calls))
	c, err := a.readContext(ctx, key, promptConfig, calls)
	for _, call := range calls {
		permits[call.ID] = c.decide(promptConfig, call)
	}
	return permits, err
}

// callContext is what the decision about a call depends on beside its turn's prompt config.
type callContext struct {
	key        journal.StepKey
	taint      *journal.TaintSource // nil: the session is not tainted
	grants     []turn.Grant
	catalogues []turn.Catalogue
	plan       *TurnPlan // nil: the turn has no plan, or it cannot be read
	// reflecting means that a call of the step reflects on a plan step. Such a completion must not change anything else,
	// because the change would belong to no step.
	reflecting bool
	written    map[string]plan.Due // the calls of the step that the plan makes, by their IDs
}

// readContext returns the context of the calls of a step. It reads the journal at most once, and not at all if neither
// the plan nor the taint matters. If the journal cannot be read, it returns the error and a tainted context without
// plan.
func (a *Authorizer) readContext(ctx context.Context, key journal.StepKey, promptConfig turn.PromptConfig,
	calls []turn.ToolCall) (c callContext, err error) {
	c.key = key
	in := journal.CallContextInput{Turn: key.Turn, Planned: promptConfig.Plan != "", Own: a.offers()}
	needed := in.Planned
	for _, call := range calls {
		d, _ := promptConfig.Find(call.Tool)
		permission := promptConfig.Policy.Permit(d.Pinned(), json.RawMessage(call.Arguments)).Permission
		in.Asked = in.Asked || permission == turn.Ask
		needed = needed || permission == turn.Ask || taintMatters(d, call, promptConfig.Policy.Taint, permission)
	}
	if !needed {
		return c, nil
	}
	found, err := a.journal.CallContext(ctx, in)
	if err == nil && in.Planned {
		err = a.planContext(ctx, &c, found)
	}
	if err != nil {
		c.taint = &journal.TaintSource{Tool: "a server"}
		return c, err
	}
	c.grants, c.catalogues = found.Grants, a.usable(found.Catalogues)
	// Only taint of an earlier step or turn counts: the model had not read anything later when it proposed the calls.
	if t := found.Taint; t != nil && (t.Turn != key.Turn || stepOf(t.CallID) < key.Step) {
		c.taint = t
	}
	return c, nil
}

// decide decides about one call: the plan before policy, taint and grants.
func (c callContext) decide(promptConfig turn.PromptConfig, call turn.ToolCall) turn.Permit {
	d, _ := promptConfig.Find(call.Tool)
	permit := c.byPlan(d, call, promptConfig.Plan)
	if permit.Permission == "" {
		permit = c.byPolicy(d, call, promptConfig.Policy)
		strict := promptConfig.Policy.Taint == turn.TaintStrict // strict mode accepts no grants, tainted or not
		if permit.Permission == turn.Ask && !strict && isCovered(c.grants, call, permit) {
			permit = turn.Permit{Permission: turn.Allow}
		}
		if permit.Permission == turn.Ask {
			if drifted := (toolStatus{c.catalogues}).driftReason(d); drifted != "" { // even an approved call would not run
				permit.Code, permit.Why = turn.CodeToolDrift, drifted
			}
			if strict {
				permit.MaxGrant = turn.GrantNever
			}
		}
		permit = c.binding(d, call, outOfScope(d, call, permit, promptConfig.Scopes), promptConfig.Plan)
	}
	permit.Why = turn.Truncate(permit.Why, turn.ResultPreview)
	return permit
}

// isCovered reports whether the grants replace the approval that the permit requires for the call: one of them for the
// call, or one for each of its commands.
func isCovered(grants []turn.Grant, c turn.ToolCall, permit turn.Permit) bool {
	hash := journal.HashOf([]byte(c.Arguments))
	return permit.IsGranted(c.Tool, grants) || slices.ContainsFunc(grants, func(g turn.Grant) bool {
		return g.Covers(c.Tool, c.Arguments, hash, permit.MaxGrant)
	})
}

// byPolicy decides a call by policy and taint. If the session is tainted, its transcript may contain instructions from
// an untrusted server. Every call that could change or send something then needs an approval, whatever the policy
// allows; with TaintOn, an allowed call to a host that the operator listed needs none, nor does one of a client tool,
// because the client decides whether it runs the call. A grant then counts only for exactly these arguments or for the
// same host.
func (c callContext) byPolicy(d turn.Descriptor, call turn.ToolCall, policy turn.Policy) turn.Permit {
	permit := policy.Permit(d.Pinned(), json.RawMessage(call.Arguments))
	if c.taint == nil || !taintMatters(d, call, policy.Taint, permit.Permission) {
		return permit
	}
	if permit.Permission == turn.Ask {
		permit.Why += "; "
	}
	permit.Permission = turn.Ask
	permit.Why += fmt.Sprintf(
		"the conversation contains untrusted output of %s, and this call could change or send something because of it",
		c.taint.Tool)
	if permit.MaxGrant != turn.GrantHost {
		permit.MaxGrant = turn.GrantCall
	}
	return permit
}

// taintMatters reports whether a call about which policy has decided may need an approval in a tainted session.
func taintMatters(d turn.Descriptor, call turn.ToolCall, mode turn.TaintMode, permission turn.Permission) bool {
	listed := mode == turn.TaintOn && permission == turn.Allow &&
		(d.Hosts.Lists(json.RawMessage(call.Arguments)) || d.Activity == turn.ActivityClient)
	return permission != turn.Deny && !d.ReadOnly && !listed && (mode == turn.TaintOn || mode == turn.TaintStrict)
}

// stepOf returns the step in a call ID, which is "<step>.<index>", or 0 if the ID has another form.
func stepOf(callID string) int {
	step, _, _ := strings.Cut(callID, ".")
	n, _ := strconv.Atoi(step)
	return n
}

// Proposed returns the calls of a completion, at most MaxCalls of them, as the workflow's history carries them: with
// the hash of the arguments and a redacted preview.
func (a *Authorizer) Proposed(calls []turn.ToolCall) []turn.ToolCall {
	out := slices.Clone(CapCalls(calls))
	for i, c := range out {
		c.ArgumentsHash, c.Background = journal.HashOf([]byte(c.Arguments)), strings.HasPrefix(c.Tool, turn.AgentTools) &&
			IsBackground(c)
		c.Tool, c.Arguments = turn.Truncate(c.Tool, 120), turn.Truncate(a.secrets.JSON(c.Arguments), turn.ArgumentsPreview)
		out[i] = c
	}
	return out
}

// MaxCalls bounds the calls of one completion, whatever the turn's limits say, because each call costs a claim and an
// activity.
const MaxCalls = journal.MaxCalls

// CapCalls returns the first MaxCalls of the calls.
func CapCalls(calls []turn.ToolCall) []turn.ToolCall { return calls[:min(len(calls), MaxCalls)] }

// IsBackground reports whether a call of an agent requests that it works in the background.
func IsBackground(c turn.ToolCall) bool {
	var arguments struct {
		Background bool `json:"background"`
	}
	return json.Unmarshal([]byte(c.Arguments), &arguments) == nil &&
		arguments.Background
}
