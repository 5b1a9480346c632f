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

// Add adds known values. It ignores values that are shorter than MinSecret without surrounding white space, or longer
// than MaxSecret.
func (r *Redactor) Add(values ...string) {
	r.count(1, values)
}

// Remove undoes one Add of each value.
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

// forms returns the automaton of all known values. It rebuilds the automaton after a change.
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
	hidden := len(r.patterns) > 0 && hides(s)
	for _, p := range r.patterns {
		if hidden {
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

// JSON is like String, for JSON text. It examines each string regardless of its escapes, and JSON within strings. The
// result is also JSON, unless a secret is a number. In text that is not JSON it redacts at least what String does.
func (r *Redactor) JSON(s string) string {
	if r == nil {
		return s
	}
	if s = r.json(s, maxNested); json.Valid([]byte(s)) {
		return s
	}
	return r.String(s) // a secret may hold quotes
}

// maxNested bounds the levels of JSON within strings of JSON that are examined.
const maxNested = 4

func (r *Redactor) json(s string, nested int) string {
	between := r.String
	if json.Valid([]byte(s)) {
		between = r.Values // for numbers and punctuation: a pattern could match across strings
	}
	plain := r.String(s) == s // if true, only escapes can hide a secret
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

// literalEnd returns the offset after the JSON string that begins at begin, or -1 if there is none.
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

// literal redacts within one JSON string, including its quotes.
func (r *Redactor) literal(quoted string, nested int) string {
	text := quoted[1 : len(quoted)-1]
	if escaped := strings.Contains(text, `\`); escaped && json.Unmarshal([]byte(quoted), &text) != nil {
		return r.String(quoted)
	}
	clean := r.String(text)
	if nested > 0 && strings.Contains(text, `\`) {
		clean = r.json(clean, nested-1)
	}
	if clean == text && r.Values(quoted) == quoted {
		return quoted
	}
	b, _ := json.Marshal(clean) // a string always marshals
	return string(b)
}
