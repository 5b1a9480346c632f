package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/everturn/everturn/workflows/turn"
	"github.com/everturn/everturn/workflows/turn/command"
)

// policy checks [policy], also against the number of reprompts in [runtime].
func (v *validator) policy(p turn.Policy, r Runtime) {
	for i, patterns := range [][]string{p.Allow, p.Deny, p.Ask} {
		for j, pattern := range patterns {
			v.toolPattern(fmt.Sprintf("policy.%s[%d]", []string{"allow", "deny", "ask"}[i], j), pattern)
		}
	}
	for i, pattern := range p.Deny {
		if slices.Contains(p.Allow, pattern) || slices.Contains(p.Ask, pattern) {
			v.add(fmt.Sprintf("policy.deny[%d]", i), "denies %q, which policy also allows or asks for; remove one", pattern)
		}
	}
	v.rules(p)
	v.commands(p.Commands)
	v.errorBudget(p, r)
	if r.MaxReprompts > 0 {
		return
	}
	// on_tool_error = "reprompt" uses no reprompt: the model gets the error as the call's result.
	const contradiction = `is "reprompt", but runtime.max_reprompts is 0; raise it, or choose "fail" or "interrupt"`
	if p.OnModelError == turn.ErrorReprompt {
		v.add("policy.on_model_error", contradiction)
	}
	if p.OnInvalidAction == turn.ErrorReprompt {
		v.add("policy.on_invalid_action", contradiction)
	}
}

// errorBudget rejects retries that max_consecutive_errors never permits, and uncounted errors that end the turn.
func (v *validator) errorBudget(p turn.Policy, r Runtime) {
	for _, e := range []struct {
		key    string
		kind   turn.ErrorKind
		action turn.ErrorAction
		least  int // max_consecutive_errors with which one retry is possible
	}{
		{"policy.on_model_error", turn.ModelError, p.OnModelError, 1},
		{"policy.on_tool_error", turn.ToolError, p.OnToolError, 2},
		{"policy.on_invalid_action", turn.InvalidActionError, p.OnInvalidAction, 0},
	} {
		i := slices.Index(p.UncountedErrors, e.kind)
		switch {
		case i >= 0 && (e.action == turn.ErrorFail || e.action == turn.ErrorInterrupt):
			v.add(fmt.Sprintf("policy.uncounted_errors[%d]", i), "is %q, but %s is %q, so the first one ends the turn; remove "+
				"one of them", e.kind, e.key, e.action)
		case i < 0 && e.action == turn.ErrorRetry && r.MaxConsecutiveErrors < e.least:
			v.add(e.key, `is "retry", but runtime.max_consecutive_errors is %d; raise it to %d, or add %q to uncounted_errors`,
				r.MaxConsecutiveErrors, e.least, e.kind)
		}
	}
}

// toolPattern rejects a pattern that is malformed, or neither is * nor begins with local/, mcp/, client/, agent/ or */.
func (v *validator) toolPattern(key, pattern string) {
	source, _, prefixed := strings.Cut(pattern, "/")
	canMatch := pattern == "*" || prefixed && slices.Contains([]string{"local", "mcp", "client", "agent", "*"}, source)
	if _, err := path.Match(pattern, ""); err != nil || !canMatch {
		v.add(key, "is %s; it must be local/<tool>, mcp/<server>/<tool>, client/<name>, agent/<id>, a pattern of those, or "+
			"* for all",
			quote(pattern))
	}
}

// The bounds of rules, which are part of every turn's config.
const (
	maxRules         = 64
	maxRuleArguments = 16
	maxArgumentName  = 400 // bytes
)

// rules checks [[policy.rules]].
func (v *validator) rules(p turn.Policy) {
	if len(p.Rules) > maxRules {
		v.add("policy.rules", "has %d rules; the maximum is %d, because every turn carries them", len(p.Rules), maxRules)
		return
	}
	for i, r := range p.Rules {
		key := fmt.Sprintf("policy.rules[%d]", i)
		v.toolPattern(key+".tool", r.Tool)
		v.printable(key+".tool", r.Tool)
		v.printable(key+".why", r.Why)
		if len(r.Arguments) > maxRuleArguments {
			v.add(key+".arguments", "names %d arguments; the maximum is %d", len(r.Arguments), maxRuleArguments)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Arguments)) {
			v.argument(join(key+".arguments", name), name, r.Arguments[name])
		}
		v.reachable(key, i, p)
	}
}

// commands checks [policy.commands].
func (v *validator) commands(p turn.CommandPolicy) {
	for name, rules := range map[string][]string{"allow": p.Allow, "ask": p.Ask, "deny": p.Deny} {
		key := "policy.commands." + name
		if len(rules) > maxRules {
			v.add(key, "has %d rules; the maximum is %d, because every turn carries them", len(rules), maxRules)
			continue
		}
		for i, rule := range rules {
			if err := command.Check(rule); err != nil {
				v.add(fmt.Sprintf("%s[%d]", key, i), "is %s; it must be %s", quote(rule), err)
			}
		}
	}
}

func (v *validator) printable(key, text string) {
	if strings.ContainsFunc(text, unicode.IsControl) {
		v.add(key, "contains a control character; remove it")
	}
}

// argument checks the pattern for one argument of a rule. name is the dotted key of the argument in a tool call, key
// the configuration key of the pattern.
func (v *validator) argument(key, name, pattern string) {
	v.printable(key, name+pattern)
	if len(name) > maxArgumentName {
		v.add(key, "is %d bytes; it must be at most %d", len(name), maxArgumentName)
	} else if slices.Contains(strings.Split(name, "."), "") {
		v.add(key, "is not a dotted key: a name is missing before, after or between its dots")
	} else if err := turn.CheckPattern(pattern); err != nil {
		v.add(key, "is %s; it must be %s", quote(pattern), err)
	}
}

// reachable rejects rule i, whose configuration key is key, if policy.deny or an earlier rule decides all of its calls,
// as far as includes can tell.
func (v *validator) reachable(key string, i int, p turn.Policy) {
	r := p.Rules[i]
	for j, d := range p.Deny {
		if includes(d, r.Tool) {
			v.add(key, "can never decide: policy.deny[%d] denies all of its tools; remove one of them", j)
			return
		}
	}
	for j, earlier := range p.Rules[:i] {
		sameCalls := len(earlier.Arguments) == 0 || maps.Equal(earlier.Arguments, r.Arguments)
		if sameCalls && includes(earlier.Tool, r.Tool) {
			v.add(key, "can never decide: policy.rules[%d] matches all of its calls first; move it up, or remove one of them", j)
			return
		}
	}
}

// includes reports whether the pattern outer matches every tool ID that the pattern inner matches. It recognizes equal
// patterns, "*" and "<folder>/*", and returns false for everything else.
func includes(outer, inner string) bool {
	if outer == inner || outer == "*" {
		return true
	}
	folder, ok := strings.CutSuffix(outer, "/*")
	return ok && !strings.ContainsAny(folder, `*?[\`) && strings.HasPrefix(inner, folder+"/")
}
