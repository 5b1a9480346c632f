package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/everturn/everturn/workflows/turn"
)

func (v *validator) policy(p Policy, r Runtime) {
	lists := []struct {
		key      string
		patterns []string
	}{{"policy.allow", p.Allow}, {"policy.deny", p.Deny}, {"policy.ask", p.Ask}}
	for _, list := range lists {
		for i, pattern := range list.patterns {
			v.toolPattern(fmt.Sprintf("%s[%d]", list.key, i), pattern)
		}
	}
	for i, pattern := range p.Deny {
		if slices.Contains(p.Allow, pattern) || slices.Contains(p.Ask, pattern) {
			v.add(fmt.Sprintf("policy.deny[%d]", i), "denies %q, which policy also allows or asks for; remove one", pattern)
		}
	}
	if r.MaxReprompts > 0 {
		return
	}
	for _, d := range []struct {
		key   string
		value Decision
	}{{"policy.on_model_error", p.OnModelError}, {"policy.on_invalid_action", p.OnInvalidAction}} {
		if d.value == DecideReprompt {
			v.add(d.key, `is "reprompt", but runtime.max_reprompts is 0; raise it, or choose "fail" or "interrupt"`)
		}
	}
}

// toolPattern checks a pattern of tool IDs. One that cannot name any tool is a mistake.
func (v *validator) toolPattern(key, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		v.add(key, "is %s, which is no pattern: a [ or \\ is not closed", quote(pattern))
		return
	}
	if !namesTools(pattern) {
		v.add(key, "is %s, which no tool can match; write local/<tool>, mcp/<server>/<tool>, or * for all", quote(pattern))
	}
}

// namesTools reports whether a pattern can match a tool's ID.
func namesTools(pattern string) bool {
	return pattern == "*" || strings.HasPrefix(pattern, "local/") || strings.HasPrefix(pattern, "mcp/") || strings.HasPrefix(pattern, "*/")
}

// The bounds of rules. All of them travel with every turn.
const (
	maxRules         = 64
	maxRuleArguments = 16
	maxRuleText      = 400 // bytes of a pattern, a key or a reason
)

func (v *validator) rules(p Policy) {
	if len(p.Rules) > maxRules {
		v.add("policy.rules", "are %d; %d are the most, since every turn carries them", len(p.Rules), maxRules)
		return
	}
	for i, r := range p.Rules {
		key := fmt.Sprintf("policy.rules[%d]", i)
		v.ruleTool(key+".tool", r.Tool)
		v.ruleText(key+".why", r.Why)
		if len(r.Arguments) > maxRuleArguments {
			v.add(key+".arguments", "names %d arguments; %d are the most", len(r.Arguments), maxRuleArguments)
			continue
		}
		for _, name := range sortedNames(r.Arguments) {
			v.argument(join(key+".arguments", name), name, r.Arguments[name], r.Permit)
		}
		v.reached(key, i, p)
	}
}

// ruleTool checks the tools that a rule is about. What is quoted may come from the environment.
func (v *validator) ruleTool(key, pattern string) {
	switch _, err := path.Match(pattern, ""); {
	case pattern == "":
		v.add(key, `is missing; name the tools that the rule is about, for instance "mcp/files/write_*", or "*" for all`)
	case err != nil || !namesTools(pattern):
		v.add(key, "is %s; it must be local/<tool>, mcp/<server>/<tool>, a pattern of those, or * for all", quote(pattern))
	}
	v.ruleText(key, pattern)
}

func (v *validator) ruleText(key, text string) {
	if len(text) > maxRuleText {
		v.add(key, "is %d bytes long; %d are the most", len(text), maxRuleText)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		v.add(key, "holds a control character; remove it")
	}
}

// argument checks one pattern of a rule: it must be one, and name something that the rule can ever apply to.
func (v *validator) argument(key, name, pattern string, permit Permit) {
	v.ruleText(key, name)
	v.ruleText(key, pattern)
	inner := strings.TrimSuffix(pattern, "/**")
	segments := strings.Split(pattern, "/")
	switch {
	case slices.Contains(strings.Split(name, "."), ""):
		v.add(key, "is no dotted key: a name is missing before, after or between its dots")
	case pattern != "**" && strings.Contains(inner, "**"):
		v.add(key, "is %s; it must be a pattern with ** only as /** at its end, or ** alone", quote(pattern))
	case permit == PermitAllow && slices.Contains(segments, ".."):
		v.add(key, "is %s; it must be a pattern without .., since values with it are never allowed by a rule", quote(pattern))
	default:
		if err := turn.CheckPattern(pattern); err != nil {
			v.add(key, "is %s; %s", quote(pattern), err)
		}
	}
}

// reached refuses a rule that can never decide, because the deny list or an earlier rule takes all of its calls.
func (v *validator) reached(key string, i int, p Policy) {
	r := p.Rules[i]
	for j, d := range p.Deny {
		if includes(d, r.Tool) {
			v.add(key, "can never decide: policy.deny[%d] denies all of its tools; remove one of the two", j)
			return
		}
	}
	for j, earlier := range p.Rules[:i] {
		if !includes(earlier.Tool, r.Tool) {
			continue
		}
		if len(earlier.Arguments) == 0 {
			v.add(key, "can never decide: policy.rules[%d], which names no arguments, decides all of its calls before; put it behind this one", j)
			return
		}
		if maps.Equal(earlier.Arguments, r.Arguments) {
			v.add(key, "can never decide: policy.rules[%d] decides the same calls before; remove one of the two", j)
			return
		}
	}
}

// includes reports whether every tool that the pattern inner names is named by outer too, as far as can be seen without
// trying: patterns that only overlap are no contradiction.
func includes(outer, inner string) bool {
	if outer == inner || outer == "*" {
		return true
	}
	folder, ok := strings.CutSuffix(outer, "/*")
	return ok && !strings.ContainsAny(folder, `*?[\`) && strings.HasPrefix(inner, folder+"/")
}

func (v *validator) people(p People) {
	v.zeroOrMore("people.approval_expiry", p.ApprovalExpiry, time.Second, "waits for ever")
	v.zeroOrMore("people.question_expiry", p.QuestionExpiry, time.Second, "waits for ever")
	if p.ApprovalExpiry == 0 && p.OnExpiry == PermitAllow {
		v.add("people.on_expiry", `is "allow", but approval_expiry is 0s, which waits for ever; set an approval_expiry, or leave on_expiry out`)
	}
}

// zeroOrMore refuses a duration that is neither off nor long enough to be meant.
func (v *validator) zeroOrMore(key string, d, least time.Duration, off string) {
	if d > 0 && d < least {
		v.add(key, "is %s; it must be 0s, which %s, or at least %s", d, off, shortDuration(least))
	}
}
