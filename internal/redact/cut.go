package redact

import "strings"

// Head redacts the beginning of a longer text like String. If the end of s may be the beginning of a secret, Head
// drops it.
func (r *Redactor) Head(s string) string { return r.Stream().Write(s) }

// Tail redacts a text whose beginning is missing like Values. If the beginning of s may be the end of a known value,
// Tail drops it.
func (r *Redactor) Tail(s string) string {
	if r == nil {
		return s
	}
	r.mu.Lock()
	dropped := 0 // bytes
	for v := range r.secrets {
		for _, form := range encodings(v) {
			dropped = max(dropped, overlap(form, s))
		}
	}
	r.mu.Unlock()
	return r.Values(s[dropped:])
}

// overlap returns the length in bytes of the longest proper suffix of form with which s begins.
func overlap(form, s string) int {
	n := min(len(form)-1, len(s))
	for n > 0 && !strings.HasSuffix(form, s[:n]) {
		n--
	}
	return n
}
