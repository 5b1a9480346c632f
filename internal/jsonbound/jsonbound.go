package jsonbound

// Scanner follows the structure of a JSON text byte by byte. It accepts text that is not valid JSON. The zero value is
// ready to use.
type Scanner struct {
	// Outline is the text without the content of objects and arrays inside the outermost one. Add collects it up to the
	// first byte above MaxOutline and then reports an excess; 0 collects nothing.
	Outline    []byte
	MaxOutline int

	depth, values   int
	quoted, escaped bool
}

// Excess names the bound that a text exceeds.
type Excess int

// The bounds. None means that the text is within all of them.
const (
	None    Excess = iota
	Depth          // nested objects and arrays
	Values         // brackets and commas, without those in strings
	Outline        // bytes outside of inner objects and arrays
)

// Add takes the next bytes of the text. It stops at the first byte that exceeds a bound.
func (s *Scanner) Add(data []byte, maxDepth, maxValues int) Excess {
	for _, b := range data {
		outer := s.depth
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
		if s.MaxOutline > 0 && min(outer, s.depth) <= 1 {
			if s.Outline = append(s.Outline, b); len(s.Outline) > s.MaxOutline {
				return Outline
			}
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

// Values returns the number of values so far.
func (s *Scanner) Values() int { return s.values }

// Reset prepares the scanner for another text. It keeps MaxOutline, and the memory of Outline.
func (s *Scanner) Reset() { *s = Scanner{MaxOutline: s.MaxOutline, Outline: s.Outline[:0]} }

// Complete reports whether the text has had an object or array and all of them are closed.
func (s *Scanner) Complete() bool { return s.values > 0 && s.depth <= 0 && !s.quoted }
