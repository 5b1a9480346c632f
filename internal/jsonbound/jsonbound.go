package jsonbound

// Scanner counts the nesting and the values of a JSON text, byte by byte. It does not check that the text is valid
// JSON. The zero value is ready to use.
type Scanner struct {
	// Outline is the text without the content of nested objects and arrays: only the outermost object or array itself.
	// It is collected up to MaxOutline bytes; a longer one is an excess. If MaxOutline is 0, nothing is collected.
	Outline    []byte
	MaxOutline int

	depth, values   int
	quoted, escaped bool
}

// Excess is the bound that a text exceeds.
type Excess int

// The bounds. None means that the text exceeds none of them.
const (
	None    Excess = iota
	Depth          // nested objects and arrays
	Values         // values, counted as opening brackets and commas outside of strings
	Outline        // bytes of Scanner.Outline
)

// Add scans the next bytes of the text and returns the bound that they exceed. It stops at the first byte that
// exceeds a bound.
func (s *Scanner) Add(data []byte, maxDepth, maxValues int) Excess {
	for _, b := range data {
		before := s.depth // the depth before this byte: a bracket belongs to the lower of both depths
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
		if s.MaxOutline > 0 && min(before, s.depth) <= 1 {
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

// Values returns the number of values so far, counted as opening brackets and commas.
func (s *Scanner) Values() int { return s.values }

// Reset prepares the scanner for another text. It keeps MaxOutline, and the memory of Outline.
func (s *Scanner) Reset() { *s = Scanner{MaxOutline: s.MaxOutline, Outline: s.Outline[:0]} }

// Complete reports whether the text has an object or array, and all objects and arrays in it are closed.
func (s *Scanner) Complete() bool { return s.values > 0 && s.depth <= 0 && !s.quoted }
