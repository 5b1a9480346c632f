package redact

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
)

// Text replaces each secret. It needs no escaping in JSON strings.
const Text = "[redacted]"

// MinSecret and MaxSecret bound the values that are looked for, in bytes: a shorter value would blank ordinary words, and
// each byte of a value costs up to a kilobyte of memory.
const (
	MinSecret = 8
	MaxSecret = 8 << 10
)

// Redactor blanks known secrets and what its patterns match. It is safe for concurrent use. A nil Redactor blanks nothing.
type Redactor struct {
	patterns []*pattern

	mu      sync.Mutex
	secrets map[string]int // how often each was added
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

// Add makes values known. Values shorter than MinSecret without surrounding white space, or longer than MaxSecret, are
// ignored.
func (r *Redactor) Add(values ...string) {
	r.count(1, values)
}

// Remove takes back one Add of each value.
func (r *Redactor) Remove(values ...string) {
	r.count(-1, values)
}

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
		if before == 0 || before+n == 0 {
			r.built.Store(nil)
		}
	}
}

// forms returns the automaton of all known values, building it after a change.
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

// String blanks known values and then what the patterns match.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	s = r.Values(s)
	hidden := len(r.patterns) > 0 && hides(s)
	for _, p := range r.patterns {
		if hidden {
			s = string(p.finder(len(s)).write([]byte(s), true))
		} else {
			s = p.ReplaceAllLiteralString(s, Text)
		}
	}
	return s
}

// Values blanks known values only.
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

// JSON is String for JSON text: it looks into each string however it is escaped, also in JSON within a string, and the
// result is JSON, too, unless a secret is a number. In text that is no JSON it blanks at least what String does.
func (r *Redactor) JSON(s string) string {
	if r == nil {
		return s
	}
	if s = r.json(s, maxNested); json.Valid([]byte(s)) {
		return s
	}
	return r.String(s) // a secret may hold quotes
}

// maxNested bounds the JSON within strings of JSON that is looked into.
const maxNested = 4

func (r *Redactor) json(s string, nested int) string {
	between := r.String
	if json.Valid([]byte(s)) {
		between = r.Values // of numbers and punctuation: a pattern could match across strings
	}
	plain := r.String(s) == s // then only escapes can hide a secret
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

// literalEnd returns the offset after the JSON string that begins at begin; -1 if none does.
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

// literal blanks within one JSON string, quotes included.
func (r *Redactor) literal(quoted string, nested int) string {
	said := quoted[1 : len(quoted)-1]
	if escaped := strings.Contains(said, `\`); escaped && json.Unmarshal([]byte(quoted), &said) != nil {
		return r.String(quoted)
	}
	clean := r.String(said)
	if nested > 0 && strings.ContainsAny(said, `\`) {
		clean = r.json(clean, nested-1)
	}
	if clean == said && r.Values(quoted) == quoted {
		return quoted
	}
	b, _ := json.Marshal(clean) // a string always marshals
	return string(b)
}
