package redact

import "strings"

// forms finds the forms in which known values are written. Every form has at least MinSecret bytes. The set always
// includes Text, so that no part of an earlier redaction is redacted.
type forms struct {
	all    []string
	by     map[string][]string // forms by their first MinSecret bytes
	starts [256]bool           // the first bytes of forms
}

func newForms(secrets map[string]int) *forms {
	f := &forms{all: []string{Text}, by: map[string][]string{}}
	for v := range secrets {
		f.all = append(f.all, encodings(v)...)
	}
	for _, form := range f.all {
		f.by[form[:MinSecret]] = append(f.by[form[:MinSecret]], form)
		f.starts[form[0]] = true
	}
	return f
}

// match returns the length of the longest form that s begins with, or 0. incomplete reports whether s is the beginning
// of a longer form.
func (f *forms) match(s string) (length int, incomplete bool) {
	if !f.starts[s[0]] {
		return 0, false
	}
	candidates := f.all
	if len(s) >= MinSecret {
		candidates = f.by[s[:MinSecret]]
	}
	for _, form := range candidates {
		if strings.HasPrefix(s, form) {
			length = max(length, len(form))
		} else if strings.HasPrefix(form, s) {
			incomplete = true
		}
	}
	return length, incomplete
}

// redact replaces each form in s with Text. Unless end is set, it returns as rest an end of s that may be the beginning
// of a form.
func (f *forms) redact(s string, end bool) (clean, rest string) {
	var out strings.Builder
	from := 0
	for i := 0; i < len(s); i++ {
		n, incomplete := f.match(s[i:])
		if incomplete && !end {
			out.WriteString(s[from:i])
			return out.String(), s[i:]
		}
		if n > 0 {
			out.WriteString(s[from:i])
			out.WriteString(Text)
			from = i + n
			i = from - 1
		}
	}
	if from == 0 {
		return s, ""
	}
	out.WriteString(s[from:])
	return out.String(), ""
}
