package command

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Rules decide about the calls of a command line. A rule is the words of a call: "git status". A rule that ends in " *"
// also applies with further words. "*" applies to every call.
type Rules struct {
	// Calls that are allowed. A line is allowed if it is plain and all of its calls are.
	Allow []string
	Ask   []string // calls that need an approval; further words always match
	Deny  []string // calls that are never made; further words always match
}

// Verdict is the decision about a line.
type Verdict string

// The verdicts. The empty one means that no rule decides.
const (
	Allowed Verdict = "allow"
	Asked   Verdict = "ask"
	Denied  Verdict = "deny"
)

// Decision is the decision about a line, and why.
type Decision struct {
	Verdict Verdict
	Why     string
	// Prefixes are the beginnings of the calls that no rule allows, as a user may allow them for later lines: "go test".
	// It is empty if the line is not plain, or if a call has no such beginning.
	Prefixes []string
}

// Decide decides about a line.
func (r Rules) Decide(text string) Decision {
	l := parse(text)
	asked := ""
	for _, list := range []struct {
		rules   []string
		verdict Verdict
		what    string
	}{{r.Deny, Denied, "policy denies the command %q"}, {r.Ask, Asked, "policy requires approval of the command %q"}} {
		for _, rule := range list.rules {
			switch match := l.finds(rule); {
			case match == surely:
				return Decision{Verdict: list.verdict, Why: fmt.Sprintf(list.what, rule)}
			case match == perhaps && asked == "":
				asked = fmt.Sprintf("the command line may hide the command %q, which policy restricts", rule)
			}
		}
	}
	switch {
	case asked != "":
		return Decision{Verdict: Asked, Why: asked}
	case l.why != "":
		return Decision{Why: "rules cannot allow the command line: " + l.why}
	}
	return r.decidePlain(l.plain)
}

// decidePlain decides about the calls of a plain line, none of which is restricted.
func (r Rules) decidePlain(calls []call) Decision {
	d := Decision{Verdict: Allowed}
	grantable := true
	for _, c := range calls {
		if c.isHarmless() || r.allows(c) {
			continue
		}
		d.Verdict = ""
		prefix := c.prefix()
		if d.Why == "" {
			d.Why = fmt.Sprintf("no rule allows the command %q", c.stripped().words[0].text)
		}
		grantable = grantable && prefix != ""
		if !slices.Contains(d.Prefixes, prefix) {
			d.Prefixes = append(d.Prefixes, prefix)
		}
	}
	if !grantable {
		d.Prefixes = nil
	}
	return d
}

// Prefixes returns the beginnings of all calls of a line that a user may allow for later lines: see Decision.Prefixes.
func Prefixes(text string) []string { return Rules{}.Decide(text).Prefixes }

// allows reports whether a rule allows a call.
func (r Rules) allows(c call) bool {
	return slices.ContainsFunc(r.Allow, func(rule string) bool {
		words, open := wordsOf(rule)
		for _, form := range []call{c, c.stripped()} {
			if form.begins(words) && (len(form.words) == len(words) || open && !form.reaches(len(words))) {
				return true
			}
		}
		return false
	})
}

// wordsOf returns the words of a rule, and whether further words match.
func wordsOf(rule string) (words []string, open bool) {
	if rule == "*" {
		return nil, true
	}
	rule, open = strings.CutSuffix(strings.TrimSpace(rule), " *")
	for _, c := range parse(rule).plain[:min(1, len(parse(rule).plain))] {
		for _, w := range c.words {
			words = append(words, w.text)
		}
	}
	return words, open
}

// begins reports whether a call begins with these words.
func (c call) begins(words []string) bool {
	if len(c.words) < len(words) {
		return false
	}
	for i, w := range words {
		if !c.words[i].known || c.words[i].text != w {
			return false
		}
	}
	return true
}

type certainty int

const (
	never certainty = iota
	perhaps
	surely
)

// finds returns how certainly the line makes a call that a rule denies or asks about.
func (l line) finds(rule string) certainty {
	words, _ := wordsOf(rule)
	found := never
	if l.opaque {
		found = perhaps
	}
	for _, c := range l.all {
		found = max(found, c.matches(words))
	}
	return found
}

// matches returns how certainly a call is one with these words. It skips options between them, with a value each: git
// -C dir push is a call of git push. A program matches under every path.
func (c call) matches(words []string) certainty {
	found, at := surely, 0 // at is the number of words that have matched
	valued := false        // the last word was an option, so this one may be its value
	for i, w := range c.words {
		if at == len(words) {
			return found
		}
		text := w.text
		if i == 0 {
			text = path.Base(text)
		}
		switch {
		case !w.known:
			found, valued = perhaps, true
			if at++; i == 0 && len(words) == 1 {
				return perhaps
			}
		case strings.EqualFold(text, words[at]):
			at, valued = at+1, false
		case i > 0 && strings.HasPrefix(text, "-"):
			valued = true
		case i > 0 && valued:
			valued = false
		default:
			return never
		}
	}
	switch {
	case at == len(words):
		return found
	case c.more && at > 0:
		return perhaps
	}
	return never
}

// Check returns an error if the text is no rule.
func Check(rule string) error {
	words, open := wordsOf(rule)
	l := parse(strings.TrimSuffix(strings.TrimSpace(rule), " *"))
	switch {
	case rule == "*":
		return nil
	case len(rule) > 400:
		return fmt.Errorf("at most 400 bytes")
	case l.why != "" || len(l.plain) != 1 || len(words) == 0:
		return fmt.Errorf("the words of one command, with * as the last word for further ones: go test *")
	case open && slices.Contains(unbounded, words[0]) && len(words) == 1:
		return fmt.Errorf("more than %s *, which allows every command: name what it starts", words[0])
	}
	return nil
}
