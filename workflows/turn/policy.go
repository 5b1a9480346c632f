package turn

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Decision is what follows an error.
type Decision string

// The decisions.
const (
	DecideFail      Decision = "fail"      // end the turn as failed
	DecideRetry     Decision = "retry"     // do the same again; consumes a step
	DecideReprompt  Decision = "reprompt"  // tell the model what went wrong; consumes a step and a reprompt
	DecideInterrupt Decision = "interrupt" // end the turn with its partial result, for a person to look at
)

// Permission is what policy says of one tool call.
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
	// Rules weigh what Deny leaves over: the first one that applies to a call decides, before Ask, Allow and AskRisk.
	Rules []Rule `json:"rules,omitempty"`
	// AskRisk is the risk from which on an allowed call is asked for; empty means never.
	AskRisk Risk `json:"ask_risk,omitempty"`
	// Taint says what follows when somebody else's words are in the transcript; empty means nothing.
	Taint           TaintMode `json:"taint,omitempty"`
	OnModelError    Decision  `json:"on_model_error"`
	OnToolError     Decision  `json:"on_tool_error"`
	OnInvalidAction Decision  `json:"on_invalid_action"`
}

// TaintMode is how a session is guarded whose transcript holds the words of servers that the operator does not trust. Such
// words may be instructions; what the model then does with them is not to leave the house unseen.
type TaintMode string

// The modes.
const (
	TaintOff TaintMode = "off"
	// TaintOn: after the first result of an untrusted server, each call that is not Contained needs a person's approval,
	// whatever lists and rules allow. A person may allow exactly these arguments for good, but not the tool.
	TaintOn TaintMode = "on"
	// TaintStrict: also after results of trusted servers, and every call is approved by itself.
	TaintStrict TaintMode = "strict"
)

// DefaultPolicy allows every configured tool, asks for those of high risk and fails fast; errors of tools go back to
// the model and an invalid action is reprompted within the limits.
func DefaultPolicy() Policy {
	return Policy{
		Allow: []string{"local/*", "mcp/*"}, AskRisk: RiskHigh,
		OnModelError: DecideFail, OnToolError: DecideReprompt, OnInvalidAction: DecideReprompt,
	}
}

// Permit says whether t may be called with these arguments, and why not where it may not without further ado. Nil
// arguments ask what can be said of the tool alone: where only its arguments could tell, that is to ask, or what is said
// of a tool that no rule names.
func (p Policy) Permit(t Tool, arguments json.RawMessage) (Permission, string) {
	permission, why, _ := p.PermitBy(t, arguments)
	return permission, why
}

// PermitBy is Permit, and says whether it is so because of these arguments: fromRule is true where a rule that weighs
// arguments decided, or perhaps applies and thereby asks. What a person allows of the tool as a whole does not answer such
// an ask, since with other arguments there would have been none.
func (p Policy) PermitBy(t Tool, arguments json.RawMessage) (permission Permission, why string, fromRule bool) {
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
			doubt = r.doubt(t, arguments)
		}
	}
	permission, why = p.listed(t)
	if permission == Allow && doubt != "" {
		permission, why = Ask, doubt
	}
	return permission, why, permission == Ask && doubt != ""
}

// Offered says whether a model may be shown the tool at all: whether there are calls of it that policy does not deny.
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

// listed is what the lists and the tool's risk say, where Deny and the rules say nothing.
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

// AfterInvalid decides what follows an answer that is no valid action.
func (p Policy) AfterInvalid(l Limits, c Counters) Decision {
	if p.OnInvalidAction == DecideReprompt && c.Reprompts >= l.MaxReprompts {
		return DecideFail
	}
	return p.OnInvalidAction
}

// AfterModelError decides what follows an inference that failed for good. A code that trying again cannot help is
// never retried.
func (p Policy) AfterModelError(code Code, l Limits, c Counters) Decision {
	switch p.OnModelError {
	case DecideRetry:
		if !code.Retryable() {
			return DecideFail
		}
	case DecideReprompt:
		if c.Reprompts >= l.MaxReprompts || code == CodeLLMRejected || code == CodeLLMUnauthorized {
			return DecideFail
		}
	}
	return p.OnModelError
}

// Validate refuses contradictions.
func (p Policy) Validate(l Limits) error {
	for _, d := range p.Deny {
		for _, a := range append(append([]string{}, p.Allow...), p.Ask...) {
			if a == d {
				return fmt.Errorf("policy: %q is denied and also allowed or asked for; remove one", d)
			}
		}
	}
	for i, r := range p.Rules {
		if r.Permit != Allow && r.Permit != Ask && r.Permit != Deny {
			return fmt.Errorf("policy: rule %d permits %q; it must be allow, ask or deny", i, r.Permit)
		}
	}
	if p.OnInvalidAction == DecideReprompt && l.MaxReprompts == 0 {
		return fmt.Errorf(`policy: on_invalid_action = "reprompt" contradicts max_reprompts = 0`)
	}
	if p.OnInvalidAction == DecideRetry {
		return fmt.Errorf(`policy: on_invalid_action = "retry" would ask the same again; use "reprompt", "fail" or "interrupt"`)
	}
	return nil
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
	return 3 // an unknown risk is a high one
}
