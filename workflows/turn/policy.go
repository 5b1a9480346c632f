package turn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ErrorAction is the policy's reaction to an error.
type ErrorAction string

// The reactions to an error.
const (
	ErrorFail      ErrorAction = "fail"      // end the turn as failed
	ErrorRetry     ErrorAction = "retry"     // repeat the inference, which consumes a step, or the tool call
	ErrorReprompt  ErrorAction = "reprompt"  // tell the model what went wrong; consumes a step and a reprompt
	ErrorInterrupt ErrorAction = "interrupt" // end the turn with its partial result, for a user to inspect
)

// Permission is the policy's decision about one tool call.
type Permission string

// The permissions.
const (
	Allow Permission = "allow"
	Deny  Permission = "deny"
	Ask   Permission = "ask"
)

// Permit is the decision about one call: by the policy, the turn's plan, the session's taint and its grants. Activities
// decide, because they have the whole arguments. The zero Permit denies the call.
type Permit struct {
	Permission Permission `json:"permission,omitempty"`
	// Why gives the reason, unless the permission is Allow. The model is told why a call is denied.
	Why string `json:"why,omitempty"`
	// MaxGrant is the widest grant that would replace an approval: see Request.MaxGrant.
	MaxGrant GrantScope `json:"max_grant,omitempty"`
	// Code is set if the call cannot run whatever a user decides, for example tool_drift. Why tells the model, and the
	// turn requests no approval.
	Code Code `json:"code,omitempty"`
	// Retry means that the call is denied for now: the model may propose it again when the reason in Why no longer
	// holds. Otherwise the model is told not to try again.
	Retry bool `json:"retry,omitempty"`
	// Commands are the beginnings of commands that need an approval, if MaxGrant is GrantCommand.
	Commands []string `json:"commands,omitempty"`
}

// Policy decides, without side effects, whether a tool may be called and what follows an error. It is [policy] of
// agent.toml, whose documentation are the comments of its fields. Without an AskRisk no risk needs an approval, and
// without a Taint text of servers does not.
type Policy struct {
	// Patterns of tool IDs: "local/read_file", "mcp/files/*", "client/*", "agent/reviewer", "*". deny wins over ask, and ask over
	// allow. A tool that no pattern matches is denied. Agents that may be called (runtime.agents) need no pattern unless
	// another agent has one: then only those that a pattern matches may be called.
	Allow []string `json:"allow,omitempty" toml:"allow" default:"local/*,mcp/*,client/*"`
	// Tools that are never called.
	Deny []string `json:"deny,omitempty" toml:"deny"`
	// Tools whose calls need an approval.
	Ask []string `json:"ask,omitempty" toml:"ask"`
	// The lowest risk at which an allowed call needs an approval: "low" (every call), "medium", "high" or "never".
	AskRisk Risk `json:"ask_risk,omitempty" toml:"ask_risk" default:"high" enum:"low,medium,high,never"`
	// "on": once the transcript contains text of an untrusted server, calls of tools that are not read_only need an
	// approval, except fetch_url of a listed host and client tools, whose calls the client may refuse. "strict": once it contains text of any server, every call needs an
	// approval. "off": no such approvals.
	Taint TaintMode `json:"taint,omitempty" toml:"taint" default:"on" enum:"on,off,strict"`
	// What follows an inference that failed permanently: "fail" ends the turn, "retry" repeats the inference within
	// max_steps, "reprompt" tells the model within max_reprompts, "interrupt" ends the turn with its partial result.
	OnModelError ErrorAction `json:"on_model_error" toml:"on_model_error" default:"fail" enum:"fail,retry,reprompt,interrupt"`
	// What follows a tool's error: "fail", "reprompt" (the model gets the error as the call's result), "interrupt", or
	// "retry": the call of a repeatable tool is repeated after 1, 2, 4, 8 and 16 seconds, and then the model gets the
	// error. Each attempt counts towards runtime.max_consecutive_errors: with 2, a call is repeated once.
	OnToolError ErrorAction `json:"on_tool_error" toml:"on_tool_error" default:"reprompt" enum:"fail,reprompt,retry,interrupt"`
	// What follows a completion that is not a valid action: "fail", "reprompt" or "interrupt".
	OnInvalidAction ErrorAction `json:"on_invalid_action" toml:"on_invalid_action" default:"reprompt" enum:"fail,reprompt,interrupt"`
	// Errors that do not count towards runtime.max_consecutive_errors: "model_error", "tool_error", "invalid_action". The
	// limits of steps, reprompts and time still end the turn.
	UncountedErrors []ErrorKind `json:"uncounted_errors,omitempty" toml:"uncounted_errors" enum:"model_error,tool_error,invalid_action" example:"tool_error"`
	// The highest effort of inferences: see llm.effort. Higher ones are lowered to it; empty means no limit.
	MaxEffort Effort `json:"max_effort,omitempty" toml:"max_effort" enum:",off,minimal,low,medium,high,xhigh,max" example:"high"`
	// Rules about calls by their arguments. The first rule that matches a call decides, after deny and before ask,
	// allow and ask_risk. To confine a tool, allow the good calls and deny the others in the next rule.
	//
	// The form of a pattern determines the kind of value that it matches: a URL (https://*.corp.com/**), an email
	// address (*@corp.com), an IP address (10.0.0.*), a number (1000), true or false, or else a path, a word or a host
	// name (docs/**). No rule allows a value that is not in the canonical form of its kind; such a call needs an
	// approval. Examples: a path with .., // or a space, 01000, 1e3, a list of addresses in one string, and anything
	// that is not ASCII. For a JSON list, allow requires that all elements match; deny and ask require one. In rules
	// that deny or ask, a relative path matches in any folder. A wildcard matches neither a sign nor a port, and a query
	// only as a part of /**. In a host, and in the first segment of a relative path, * matches within one label, and
	// never the last one; * alone matches every host, and *. at the beginning every subdomain. Patterns that could never
	// decide are rejected: ~/.ssh/** (write .ssh/** or /home/ann/.ssh/**), ../docs, 10.0.0.0/8, [0-9], ???.
	Rules []Rule `json:"rules,omitempty" toml:"rules"`
	// Commands about which no rule decides, if they are isolated in namespaces without the machine's network, in a trusted
	// workspace: "ask" or "allow".
	IsolatedCommands Permission `json:"isolated_commands,omitempty" toml:"isolated_commands" default:"ask" preset:"coding=allow" enum:"ask,allow"`
	// Which commands of the tool shell may run. Rules of [[policy.rules]] come first, but allow none that is denied here.
	Commands CommandPolicy `json:"commands,omitzero" toml:"commands"`
	// Only are the patterns of tools to which the user's message narrows its turn. Tools that match none are denied; a
	// match permits nothing. If it is empty, the message does not narrow the turn.
	Only []string `json:"only,omitempty"`
}

// ErrorKind is a kind of error after which the policy decides.
type ErrorKind string

// The kinds of errors.
const (
	ModelError         ErrorKind = "model_error"
	ToolError          ErrorKind = "tool_error"
	InvalidActionError ErrorKind = "invalid_action"
)

// Counted returns 1 if an error of this kind counts towards max_consecutive_errors, and otherwise 0.
func (p Policy) Counted(kind ErrorKind) int {
	if slices.Contains(p.UncountedErrors, kind) {
		return 0
	}
	return 1
}

// maxErrorRetries bounds how often one call is repeated because its tool returned an error.
const maxErrorRetries = 5

// RetriesToolError reports whether a call of the tool t is repeated if this attempt of it ends with an error. retried
// is how often it was repeated for that reason. Each counted error uses up a part of max_consecutive_errors, of which
// one remains for the model to see the last error.
func (p Policy) RetriesToolError(t Tool, l Limits, c Counters, retried int) bool {
	errors := (c.ConsecutiveErrors + retried + 1) * p.Counted(ToolError)
	return p.OnToolError == ErrorRetry && t.Repeatable && retried < maxErrorRetries &&
		(errors == 0 || errors < l.MaxConsecutiveErrors)
}

// TaintMode is the protection of a session whose transcript holds text of untrusted servers. The text may contain
// instructions, so a user must approve what the model sends or changes because of it.
type TaintMode string

// The taint modes.
const (
	TaintOff TaintMode = "off"
	// TaintOn means that after the first result of an untrusted server, each call that is not ReadOnly needs approval,
	// whatever the lists and rules allow. A grant can cover exactly these arguments, but not the whole tool.
	TaintOn TaintMode = "on"
	// TaintStrict also protects after results of trusted servers, and accepts no grants.
	TaintStrict TaintMode = "strict"
)

// DefaultPolicy allows every configured tool, asks for tools of high risk and fails fast. Tool errors go back to the
// model, and an invalid action is reprompted within the limits.
func DefaultPolicy() Policy {
	return Policy{
		Allow: []string{"local/*", "mcp/*", "client/*"}, AskRisk: RiskHigh,
		OnModelError: ErrorFail, OnToolError: ErrorReprompt, OnInvalidAction: ErrorReprompt,
	}
}

// Permit decides whether t may be called with these arguments. MaxGrant is GrantCall if a rule with arguments decided
// or may apply, or if the call's host is unclear; GrantHost if its host is not listed; GrantCommand if no rule allows
// its commands; otherwise empty, which means GrantTool.
func (p Policy) Permit(t Tool, arguments json.RawMessage) Permit {
	permit := p.permit(t, arguments)
	if t.AlwaysAsks && permit.Permission != Deny {
		return Permit{Permission: Ask, MaxGrant: GrantNever, Why: cmp.Or(permit.Why,
			fmt.Sprintf("each call of %s needs an approval", t.ID))}
	}
	if t.Commands == nil || permit.Permission == Deny {
		return permit
	}
	// No rule allows a command that is denied, or one that nothing isolates.
	if c := p.permitCommand(t, arguments, permit, ""); c.Permission == Deny || c.MaxGrant == GrantNever {
		return c
	}
	return permit
}

// permit decides like Permit, except that a rule may allow commands that are denied or not isolated.
func (p Policy) permit(t Tool, arguments json.RawMessage) Permit {
	if matches(p.Deny, t.ID) {
		return Permit{Permission: Deny, Why: fmt.Sprintf("policy denies %s", t.ID)}
	}
	if p.excludes(t) {
		return Permit{Permission: Deny, Why: fmt.Sprintf("the user's message excludes %s from this turn", t.ID)}
	}
	doubt := "" // the reason to ask, if a rule may apply before the one that decides
	for _, r := range p.Rules {
		switch c := r.applies(t, arguments); {
		case c == surely:
			permit := r.decide(t, doubt)
			if permit.Permission == Ask && (len(r.Arguments) > 0 || doubt != "") {
				permit.MaxGrant = GrantCall
			}
			return permit
		case c == perhaps && doubt == "":
			doubt = r.doubt(t)
		}
	}
	permit := p.decideByLists(t)
	switch {
	case permit.Permission == Deny:
		return permit
	case t.Commands != nil && doubt == "":
		reason := ""
		if matches(p.Ask, t.ID) {
			reason = permit.Why
		}
		return p.permitCommand(t, arguments, permit, reason)
	case permit.Permission == Allow && doubt != "":
		return Permit{Permission: Ask, Why: doubt, MaxGrant: GrantCall}
	case doubt != "":
		permit.MaxGrant = GrantCall
		return permit
	}
	if reason, scope := t.Hosts.reasonToAsk(t, arguments); reason != "" {
		return Permit{Permission: Ask, Why: reason, MaxGrant: scope}
	}
	return permit
}

// Offered reports whether the model is offered the tool: it is, unless the policy denies every call of it.
func (p Policy) Offered(t Tool) bool {
	if matches(p.Deny, t.ID) || p.excludes(t) {
		return false
	}
	for _, r := range p.Rules {
		switch {
		case !matches([]string{r.Tool}, t.ID):
		case r.Permit == Allow || r.Permit == Ask: // at least for some arguments
			return true
		case len(r.Arguments) == 0: // the rule denies all calls that earlier rules do not permit
			return false
		}
	}
	return p.decideByLists(t).Permission != Deny
}

// Asks reports whether calls of the tool need an approval: all of them, or some, depending on their arguments. Taint,
// plans and grants are not considered.
func (p Policy) Asks(t Tool) (all, some bool) {
	if t.AlwaysAsks {
		return true, true
	}
	others := false // some calls need no approval
	for _, r := range p.Rules {
		switch {
		case !matches([]string{r.Tool}, t.ID):
		case len(r.Arguments) > 0:
			some, others = some || r.Permit == Ask, others || r.Permit != Ask
		default: // the rule decides about all calls that earlier rules do not
			ask := r.Permit == Ask
			return ask && !others, some || ask
		}
	}
	if t.Commands != nil && p.allowsCommands(t) {
		return false, true
	}
	ask, hosts := p.decideByLists(t).Permission == Ask, t.Hosts != nil && !slices.Contains(t.Hosts.Listed, "*")
	return ask && !others, some || ask || hosts
}

// allowsCommands reports whether some command lines of the tool t need no approval although its risk requires one.
func (p Policy) allowsCommands(t Tool) bool {
	isolated := t.Commands.Isolated && p.IsolatedCommands == Allow
	return !t.Commands.Unconfined && !t.Commands.Host && !matches(p.Ask, t.ID) && (isolated || len(p.Commands.Allow) > 0)
}

// excludes reports whether the user's message narrows the turn to other tools.
func (p Policy) excludes(t Tool) bool { return len(p.Only) > 0 && !matches(p.Only, t.ID) }

// decideByLists decides by the lists Ask and Allow and the tool's risk. It applies to calls about which neither Deny
// nor a rule decides.
func (p Policy) decideByLists(t Tool) Permit {
	switch {
	case matches(p.Ask, t.ID):
		return Permit{Permission: Ask, Why: fmt.Sprintf("policy requires approval of %s", t.ID)}
	case !matches(p.Allow, t.ID):
		return Permit{Permission: Deny, Why: fmt.Sprintf("policy does not allow %s", t.ID)}
	case p.AskRisk != "" && p.AskRisk != RiskNever && riskRank(t.Risk) >= riskRank(p.AskRisk):
		return Permit{Permission: Ask,
			Why: fmt.Sprintf("policy requires approval of tools of %s risk, such as %s", t.Risk, t.ID)}
	}
	return Permit{Permission: Allow}
}

// AfterInvalid decides what follows an invalid action. A turn without reprompts left fails.
func (p Policy) AfterInvalid(l Limits, c Counters) ErrorAction {
	if p.OnInvalidAction == ErrorReprompt && c.Reprompts >= l.MaxReprompts {
		return ErrorFail
	}
	return p.OnInvalidAction
}

// AfterModelError decides what follows an inference that failed permanently. The turn fails if the code is not
// retryable but the policy is ErrorRetry. It also fails if the policy is ErrorReprompt but no reprompt is left, or
// another prompt would fail in the same way.
func (p Policy) AfterModelError(code Code, l Limits, c Counters) ErrorAction {
	switch p.OnModelError {
	case ErrorRetry:
		if !code.Retryable() {
			return ErrorFail
		}
	case ErrorReprompt:
		if c.Reprompts >= l.MaxReprompts || code == CodeLLMRejected || code == CodeLLMUnauthorized ||
			code == CodeContextOverflow || code == CodeTokensUsedUp || code == CodeBudgetUsedUp {
			return ErrorFail
		}
	}
	return p.OnModelError
}

// matches reports whether one of the patterns matches a tool ID. See Policy.Allow for the patterns. An invalid one
// matches nothing.
func matches(patterns []string, id string) bool {
	for _, p := range patterns {
		if p == "*" {
			return true
		}
		if prefix, ok := strings.CutSuffix(p, "/*"); ok && strings.HasPrefix(id, prefix+"/") {
			return true
		}
		if ok, err := path.Match(p, id); err == nil && ok {
			return true
		}
	}
	return false
}

// riskRank returns the position of a risk in rising order, from 1 to 3.
func riskRank(r Risk) int {
	switch r {
	case RiskLow:
		return 1
	case RiskMedium:
		return 2
	}
	return 3 // an unknown risk counts as high
}
