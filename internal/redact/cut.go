package redact

import "strings"

// Head is like String, for the beginning of a longer text. It drops an end that may be the beginning of a secret.
func (r *Redactor) Head(s string) string { return r.Stream().Write(s) }

// Tail is like Values, for a text whose beginning is missing. It drops a beginning that may be the end of a known
// value.
func (r *Redactor) Tail(s string) string {
	if r == nil {
		return s
	}
	r.mu.Lock()
	lost := 0
	for v := range r.secrets {
		for _, form := range encodings(v) {
			lost = max(lost, overlap(form, s))
		}
	}
	r.mu.Unlock()
	return r.Values(s[lost:])
}

// overlap returns the length of the longest proper suffix of form that s begins with, in bytes.
func overlap(form, s string) int {
	n := min(len(form)-1, len(s))
	for n > 0 && !strings.HasSuffix(form, s[:n]) {
		n--
	}
	return n
}
