package turn

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// ErrorAction is the policy's reaction to an error.
type ErrorAction string

// The decisions.
const (
	ErrorFail      ErrorAction = "fail"      // end the turn as failed
	ErrorRetry     ErrorAction = "retry"     // do the same again; consumes a step
	ErrorReprompt  ErrorAction = "reprompt"  // tell the model what went wrong; consumes a step and a reprompt
	ErrorInterrupt ErrorAction = "interrupt" // end the turn with its partial result, for a person to look at
)

// Permission is the policy's decision about one tool call.
type Permission string

// The permissions.
const (
	Allow Permission = "allow"
	Deny  Permission = "deny"
	Ask   Permission = "ask"
)

// Policy decides, without side effects, whether a tool may be called and what follows an error.
type Policy struct {
	// Allow, Deny and Ask are patterns of tool IDs (path.Match, and a trailing /* spans slashes). Deny wins over Ask,
	// Ask over Allow; a tool that no pattern names is denied.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	// Rules decide about calls that Deny does not match: the first one that applies to a call decides, before Ask,
	// Allow and AskRisk.
	Rules []Rule `json:"rules,omitempty"`
	// AskRisk is the lowest risk of which an allowed call needs approval; empty means none does.
	AskRisk Risk `json:"ask_risk,omitempty"`
	// Taint decides about calls when the transcript holds text of an untrusted server; empty means TaintOff.
	Taint           TaintMode   `json:"taint,omitempty"`
	OnModelError    ErrorAction `json:"on_model_error"`
	OnToolError     ErrorAction `json:"on_tool_error"`
	OnInvalidAction ErrorAction `json:"on_invalid_action"`
}

// TaintMode is the protection of a session whose transcript holds text of servers that the operator does not trust. The
// text may contain instructions, so a person sees what the model sends or changes because of it.
type TaintMode string

// The modes.
const (
	TaintOff TaintMode = "off"
	// TaintOn: after the first result of an untrusted server, each call that is not Contained needs approval, whatever
	// lists and rules allow. An approval can be remembered for exactly these arguments, but not for the tool.
	TaintOn TaintMode = "on"
	// TaintStrict: also after results of trusted servers, and no approval is remembered.
	TaintStrict TaintMode = "strict"
)

// DefaultPolicy allows every configured tool, asks for those of high risk and fails fast. Tool errors go back to the
// model, and an invalid action is reprompted within the limits.
func DefaultPolicy() Policy {
	return Policy{
		Allow: []string{"local/*", "mcp/*"}, AskRisk: RiskHigh,
		OnModelError: ErrorFail, OnToolError: ErrorReprompt, OnInvalidAction: ErrorReprompt,
	}
}

// Permit decides whether t may be called with these arguments, and returns the reason if not. The decision is fromRule
// if it depends on the arguments: a rule with arguments decided, or perhaps applies and thus asks. A grant for the whole
// tool does not satisfy such a request.
func (p Policy) Permit(t Tool, arguments json.RawMessage) (permission Permission, why string, fromRule bool) {
	if matches(p.Deny, t.ID) {
		return Deny, fmt.Sprintf("policy denies %s", t.ID), false
	}
	doubt := ""
	for _, r := range p.Rules {
		switch c := r.applies(t, arguments); {
		case c == surely:
			permission, why = r.decide(t, doubt)
			return permission, why, len(r.Arguments) > 0 || permission == Ask && doubt != ""
		case c == perhaps && doubt == "":
			doubt = r.doubt(t)
		}
	}
	permission, why = p.listed(t)
	if permission == Allow && doubt != "" {
		permission, why = Ask, doubt
	}
	return permission, why, permission == Ask && doubt != ""
}

// Offered reports whether a model is offered the tool: whether it has calls that the policy does not deny.
func (p Policy) Offered(t Tool) bool {
	if matches(p.Deny, t.ID) {
		return false
	}
	for _, r := range p.Rules {
		switch {
		case !matches([]string{r.Tool}, t.ID):
		case r.Permit == Allow || r.Permit == Ask:
			return true
		case len(r.Arguments) == 0:
			return false
		}
	}
	permission, _ := p.listed(t)
	return permission != Deny
}

// listed decides by the lists and the tool's risk, if neither Deny nor a rule decides.
func (p Policy) listed(t Tool) (Permission, string) {
	switch {
	case matches(p.Ask, t.ID):
		return Ask, fmt.Sprintf("policy asks a person before %s", t.ID)
	case !matches(p.Allow, t.ID):
		return Deny, fmt.Sprintf("policy does not allow %s", t.ID)
	case p.AskRisk != "" && riskRank(t.Risk) >= riskRank(p.AskRisk):
		return Ask, fmt.Sprintf("%s is of %s risk, for which policy asks a person", t.ID, t.Risk)
	}
	return Allow, ""
}

// AfterInvalid decides what follows an invalid action.
func (p Policy) AfterInvalid(l Limits, c Counters) ErrorAction {
	if p.OnInvalidAction == ErrorReprompt && c.Reprompts >= l.MaxReprompts {
		return ErrorFail
	}
	return p.OnInvalidAction
}

// AfterModelError decides what follows an inference that failed permanently. Only retryable codes are retried.
func (p Policy) AfterModelError(code Code, l Limits, c Counters) ErrorAction {
	switch p.OnModelError {
	case ErrorRetry:
		if !code.Retryable() {
			return ErrorFail
		}
	case ErrorReprompt:
		if c.Reprompts >= l.MaxReprompts || code == CodeLLMRejected || code == CodeLLMUnauthorized {
			return ErrorFail
		}
	}
	return p.OnModelError
}

// matches reports whether one of the patterns names id.
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

func riskRank(r Risk) int {
	switch r {
	case RiskLow:
		return 1
	case RiskMedium:
		return 2
	}
	return 3 // an unknown risk counts as high
}
