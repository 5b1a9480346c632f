package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sanitize makes untrusted text safe to store, to send and to print. It replaces invalid UTF-8 with U+FFFD, removes
// whole terminal escape sequences, removes DEL and every C0 or C1 control except newline and tab, and turns CR and CRLF
// into a newline. Text that needs no change is returned without a copy.
func Sanitize(s string) string {
	i := firstUnsafe(s)
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:i])
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0x1b || r == 0x9b || r == 0x9d || r == 0x90: // ESC, and the C1 controls CSI, OSC and DCS
			i += escapeLen(s[i:], r, size)
			continue
		case r == '\r':
			if i+1 >= len(s) || s[i+1] != '\n' {
				b.WriteByte('\n')
			}
		case !isControl(r):
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// isControl reports whether r is a C0 or C1 control or DEL, except newline and tab.
func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
}

// firstUnsafe returns the index of the first byte that Sanitize would change, or len(s).
func firstUnsafe(s string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if isControl(rune(c)) {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if isControl(r) || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(s)
}

// maxEscape bounds the length of an escape sequence in bytes, so that an unterminated one does not remove the text
// after it.
const maxEscape = 256

// escapeLen returns the length in bytes of the escape sequence at the start of s (ECMA-48). r is the character that
// introduces it, and size is its length in bytes.
func escapeLen(s string, r rune, size int) int {
	var kind byte // the byte after ESC that determines the kind of sequence; C1 controls stand for ESC and this byte
	at := size
	switch r {
	case 0x9b:
		kind = '['
	case 0x9d, 0x90:
		kind = ']'
	default:
		if at >= len(s) {
			return at
		}
		kind = s[at]
		if kind >= utf8.RuneSelf || kind < 0x20 {
			return at
		}
		at++
	}
	switch kind {
	case '[':
		return csiEnd(s, at)
	case ']', 'P', 'X', '^', '_':
		return stringEnd(s, at)
	}
	for at < len(s) && kind >= 0x20 && kind <= 0x2f { // intermediates, as in ESC ( B
		kind = s[at]
		if kind < 0x20 || kind > 0x7e {
			break
		}
		at++
	}
	return at
}

// csiEnd returns the index in s after a control sequence whose introducer ends at index at. The sequence consists of
// parameters and intermediates, then one byte from @ to ~. If another byte breaks it off, csiEnd returns the index of
// that byte. If it is unterminated, csiEnd returns at, so that only the introducer is removed.
func csiEnd(s string, at int) int {
	for end := at; end < len(s) && end < at+maxEscape; end++ {
		switch c := s[end]; {
		case c >= 0x40 && c <= 0x7e:
			return end + 1
		case c < 0x20 || c > 0x3f:
			return end
		}
	}
	return at
}

// stringEnd returns the index in s after a control string whose introducer ends at index at. BEL or ST terminates the
// string, which may be longer than other sequences. If it is unterminated, stringEnd returns at, so that only the
// introducer is removed.
func stringEnd(s string, at int) int {
	for end := at; end < len(s) && end < at+maxEscape*16; end++ {
		switch {
		case s[end] == 0x07:
			return end + 1
		case s[end] == 0x1b && end+1 < len(s) && s[end+1] == '\\':
			return end + 2
		case s[end] == 0xc2 && end+1 < len(s) && s[end+1] == 0x9c:
			return end + 2
		}
	}
	return at
}

// Cut shortens s to at most limit bytes and reports whether it did. It keeps the head and the tail, cut between
// runes, and puts a line between them that says which bytes are missing. If limit is too small for that line, it
// keeps only the head.
func Cut(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	const room = 96 // for the line between the parts
	if limit < 2*room {
		return Head(s, limit), true
	}
	keep := limit - room
	head := Start(s, keep*3/4)
	tail := len(s) - (keep - keep*3/4)
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + fmt.Sprintf("\n[... bytes %d to %d of %d bytes left out here ...]\n", head, tail, len(s)) + s[tail:],
		true
}

// Head returns the beginning of s, at most limit bytes, cut between runes.
func Head(s string, limit int) string { return s[:Start(s, max(min(limit, len(s)), 0))] }

// Start returns the index at which the rune begins that contains the byte s[i]. An index outside of s stays as it is.
func Start[T ~string | ~[]byte](s T, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// Line returns untrusted text for an error message: sanitized, on one line, without bidirectional controls, at most
// limit bytes.
func Line(s string, limit int) string {
	s = strings.Join(strings.FieldsFunc(Sanitize(s), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
	if len(s) <= limit {
		return s
	}
	return Head(s, limit-len("…")) + "…"
}
