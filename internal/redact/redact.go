package redact

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
)

// Text replaces each secret. It needs no escaping in JSON strings.
const Text = "[redacted]"

// MinSecret and MaxSecret bound the values that are redacted, in bytes: a shorter value would redact ordinary words,
// and each byte of a value costs up to a kilobyte of memory.
const (
	MinSecret = 8
	MaxSecret = 8 << 10
)

// Redactor redacts known secrets and the matches of its patterns. It is safe for concurrent use. A nil Redactor redacts
// nothing.
type Redactor struct {
	patterns []*pattern

	mu      sync.Mutex
	secrets map[string]int // how often each value was added
	built   atomic.Pointer[automaton]
}

// New returns a Redactor with patterns in RE2 syntax, which must compile, and without secrets.
func New(patterns ...string) *Redactor {
	r := &Redactor{secrets: map[string]int{}}
	for _, p := range patterns {
		r.patterns = append(r.patterns, newPattern(p))
	}
	return r
}

// Add adds known values. It ignores a value that is longer than MaxSecret, or shorter than MinSecret without the
// white space around it.
func (r *Redactor) Add(values ...string) {
	r.count(1, values)
}

// Remove undoes one Add of each value.
func (r *Redactor) Remove(values ...string) {
	r.count(-1, values)
}

// count adds n, 1 or -1, to the number of times that each value was added. If the set of values changes, it discards
// the automaton.
func (r *Redactor) count(n int, values []string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		if len(strings.TrimSpace(v)) < MinSecret || len(v) > MaxSecret || r.secrets[v]+n < 0 {
			continue
		}
		before := r.secrets[v]
		if r.secrets[v] += n; r.secrets[v] == 0 {
			delete(r.secrets, v)
		}
		if before == 0 || before+n == 0 { // the value is new or gone
			r.built.Store(nil)
		}
	}
}

// forms returns the automaton of all known values, which it builds if the values have changed.
func (r *Redactor) forms() *automaton {
	if a := r.built.Load(); a != nil {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.built.Load(); a != nil {
		return a
	}
	a := newAutomaton()
	for v := range r.secrets {
		for _, form := range encodings(v) {
			a.insert(form)
		}
	}
	a.link()
	r.built.Store(a)
	return a
}

// String redacts known values, then the matches of the patterns.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	s = r.Values(s)
	invisible := len(r.patterns) > 0 && hasInvisible(s)
	for _, p := range r.patterns {
		if invisible { // package regexp would not match across invisible characters
			s = string(p.finder(len(s)).write([]byte(s), true))
		} else if p.mayMatch(s) {
			s = p.ReplaceAllLiteralString(s, Text)
		}
	}
	return s
}

// Values redacts known values only.
func (r *Redactor) Values(s string) string {
	if r == nil {
		return s
	}
	a := r.forms()
	if !a.occursIn(s) {
		return s
	}
	v := values{automaton: a}
	return string(v.flush(v.write(make([]byte, 0, len(s)), s)))
}

// JSON redacts JSON text like String. It also finds secrets in strings with escapes, and in JSON within strings. The
// result is JSON, too, unless a secret is a number. In text that is not JSON, it redacts at least what String does.
func (r *Redactor) JSON(s string) string {
	if r == nil {
		return s
	}
	if s = r.json(s, maxNested); json.Valid([]byte(s)) {
		return s
	}
	return r.String(s) // a secret with quotes may extend over several strings
}

// maxNested bounds the levels of JSON within strings of JSON that are examined.
const maxNested = 4

// json does the work of JSON. nested is how many further levels of JSON within strings are examined.
func (r *Redactor) json(s string, nested int) string {
	between := r.String // redacts the text between strings
	if json.Valid([]byte(s)) {
		between = r.Values // for numbers and punctuation: a pattern could match across strings
	}
	plain := r.String(s) == s // no secret is visible, so only escapes can hide one
	if plain && !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for {
		begin := strings.IndexByte(s, '"')
		end := literalEnd(s, begin)
		if end < 0 {
			out.WriteString(between(s))
			break
		}
		out.WriteString(between(s[:begin]))
		if literal := s[begin:end]; plain && !strings.Contains(literal, `\`) {
			out.WriteString(literal)
		} else {
			out.WriteString(r.literal(literal, nested))
		}
		s = s[end:]
	}
	return out.String()
}

// literalEnd returns the index after the JSON string whose opening quote is at index begin, or -1 if begin is
// negative or the string does not end.
func literalEnd(s string, begin int) int {
	if begin < 0 {
		return -1
	}
	for i := begin + 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// literal redacts one JSON string, with its quotes. nested is as for json.
func (r *Redactor) literal(quoted string, nested int) string {
	text := quoted[1 : len(quoted)-1]
	if escaped := strings.Contains(text, `\`); escaped && json.Unmarshal([]byte(quoted), &text) != nil {
		return r.String(quoted)
	}
	clean := r.String(text)
	if nested > 0 && strings.Contains(text, `\`) {
		clean = r.json(clean, nested-1)
	}
	if clean == text && r.Values(quoted) == quoted { // no secret, with or without the escapes
		return quoted
	}
	b, _ := json.Marshal(clean) // a string always marshals
	return string(b)
}
