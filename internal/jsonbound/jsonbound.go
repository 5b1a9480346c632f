package jsonbound

// Scanner follows the structure of a JSON text byte by byte. It accepts text that is not valid JSON. The zero value is
// ready to use.
type Scanner struct {
	depth, values   int
	quoted, escaped bool
}

// Excess is the bound that a text exceeds.
type Excess int

// The bounds. None is a text within both.
const (
	None   Excess = iota
	Depth         // nested objects and arrays
	Values        // brackets and commas, without those in strings
)

// Add takes the next bytes of the text. It stops at the first that exceeds a bound.
func (s *Scanner) Add(data []byte, maxDepth, maxValues int) Excess {
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
		if s.depth > maxDepth {
			return Depth
		}
		if s.values > maxValues {
			return Values
		}
	}
	return None
}

// Complete reports whether every object and array that was opened is closed, and there was one.
func (s *Scanner) Complete() bool { return s.values > 0 && s.depth <= 0 && !s.quoted }
