package redact

import (
	"bytes"
	"strings"
)

// Reach is more than the length in bytes of the longest form of a known value: a text with Reach bytes before and after
// a part of it holds every value that the part has bytes of.
const Reach = 8 * MaxSecret

// Mask returns s with a mask of the same length in bytes in place of each known value, so that offsets stay and a later
// cut leaves no part of a value. A mask is Text if it fits, and asterisks. Line feeds stay.
func (r *Redactor) Mask(s string) string {
	if r == nil {
		return s
	}
	a := r.forms()
	if !a.occursIn(s) {
		return s
	}
	v := values{automaton: a}
	v.scan(s)
	for _, found := range v.runs {
		value := v.buf[found.from:found.to]
		rest := value
		if len(value) >= len(Text) && !bytes.Contains(value[:len(Text)], []byte("\n")) {
			rest = value[copy(value, Text):]
		}
		for i, b := range rest {
			if b != '\n' {
				rest[i] = '*'
			}
		}
	}
	return string(v.buf)
}

// Keeps reports whether after has each known value of before at least as often. Otherwise Mask may not recognize what
// is left of a value.
func (r *Redactor) Keeps(before, after string) bool {
	if r == nil {
		return true
	}
	a := r.forms()
	left := a.count(after)
	for value, n := range a.count(before) {
		if left[value] < n && value != Text {
			return false
		}
	}
	return true
}

// count returns how often each form occurs in s. Occurrences that overlap count as one.
func (a *automaton) count(s string) map[string]int {
	v := values{automaton: a}
	v.scan(s)
	n := map[string]int{}
	for _, found := range v.runs {
		n[string(v.buf[found.from:found.to])]++
	}
	return n
}

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
