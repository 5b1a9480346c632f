package inference

import "fmt"

// The bounds of one answer, beside Options.MaxAnswerBytes. They are well above what models send. An answer that reaches
// all of them costs a few seconds of one core, and the context is checked between its events.
const (
	maxEventBytes  = 8 << 20 // of one event, or of an answer that is not streamed
	maxEventDepth  = 128     // nested objects and arrays in one event
	maxEventValues = 1 << 16 // brackets and commas in one event, without those in strings
	maxPieces      = 1 << 19 // events, choices and parts of tool calls in one answer
	maxCalls       = 1 << 10 // tool calls in one answer
)

// overBound is the error of a response that exceeds one of its bounds.
type overBound struct {
	most int64
	what string // in the plural, for instance "bytes in one event"
}

func (e *overBound) Error() string {
	return fmt.Sprintf("the response has more than %d %s", e.most, e.what)
}

// shape follows the structure of a JSON text byte by byte, so that its bounds are checked before it is decoded. It
// accepts text that is not valid JSON.
type shape struct {
	depth, values   int
	quoted, escaped bool
}

// add takes the next bytes of the text. The error is an *overBound.
func (s *shape) add(data []byte) error {
	for _, b := range data {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped, s.quoted = b == '\\', b != '"'
		case b == '"':
			s.quoted = true
		case b == '{', b == '[':
			s.depth++
			s.values++
		case b == '}', b == ']':
			s.depth--
		case b == ',':
			s.values++
		}
		if s.depth > maxEventDepth {
			return &overBound{maxEventDepth, "levels of nesting in one event"}
		}
		if s.values > maxEventValues {
			return &overBound{maxEventValues, "values in one event"}
		}
	}
	return nil
}

// complete reports whether every object and array that was opened is closed, and there was one.
func (s *shape) complete() bool { return s.values > 0 && s.depth <= 0 && !s.quoted }
