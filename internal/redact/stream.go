package redact

// Stream is like String, for a text that arrives in pieces. However the text is split, the results together equal
// String of the whole text, except that ^ in a pattern matches at the beginning of each line, and that matches longer
// than 16 KiB are redacted in part. A Stream holds back only text that may still become a secret. It is not safe for
// concurrent use.
type Stream struct {
	forms    *forms
	held     string // may be the beginning of a known value
	patterns []*finder
}

// Stream returns a stream for a text. The stream does not redact secrets that are added later.
func (r *Redactor) Stream() *Stream {
	if r == nil {
		return &Stream{forms: newForms(nil)}
	}
	s := &Stream{forms: r.forms()}
	for _, p := range r.patterns {
		s.patterns = append(s.patterns, p.finder())
	}
	return s
}

// Write takes the next piece and returns the decided text.
func (s *Stream) Write(text string) string { return s.write(text, false) }

// Flush ends the text and returns the remaining text.
func (s *Stream) Flush() string { return s.write("", true) }

func (s *Stream) write(text string, end bool) string {
	text, s.held = s.forms.redact(s.held+text, end)
	for _, f := range s.patterns {
		text = f.write(text, end)
	}
	return text
}
