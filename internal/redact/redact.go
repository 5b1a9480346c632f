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
// and a longer one would take much memory in all its encodings.
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
	built   atomic.Pointer[forms]
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

// forms returns the forms of all known values. It collects them again after a change.
func (r *Redactor) forms() *forms {
	if f := r.built.Load(); f != nil {
		return f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.built.Load()
	if f == nil {
		f = newForms(r.secrets)
		r.built.Store(f)
	}
	return f
}

// String redacts known values, then the matches of the patterns.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	s = r.Values(s)
	for _, p := range r.patterns {
		s = p.ReplaceAllLiteralString(s, Text)
	}
	return s
}

// Values redacts known values only.
func (r *Redactor) Values(s string) string {
	if r == nil {
		return s
	}
	clean, _ := r.forms().redact(s, true)
	return clean
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
