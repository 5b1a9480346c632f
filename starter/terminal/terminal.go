package terminal

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/everturn/everturn/internal/invisible"
)

// Printable takes out of a text what could move the cursor, set a title or write to the clipboard: C0 and C1 controls
// except newline and tab, and Unicode's direction controls. Of an escape sequence its letters are left, which do
// nothing. It looks at one character at a time, so that a stream is as safe as the whole.
func Printable(s string) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case Unprintable(r):
			return -1
		}
		return r
	}
	return strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
}

// Unprintable reports whether r is one of the C0 and C1 controls, DEL, or turns the direction of writing.
func Unprintable(r rune) bool { return unicode.IsControl(r) || isDirection(r) }

// isDirection: the bidirectional controls of Unicode, UAX #9 section 2.
func isDirection(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C
}

// Line makes one printable line of a text, of at most n runes.
func Line(s string, n int) string {
	s = strings.Join(strings.Fields(Printable(s)), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Visible writes out what Printable takes away, as Go's escapes (\x1b, \u202e), and whatever else has no shape of its own,
// such as a zero-width space: the text of an approval must be seen whole. It leaves a combining mark as it is if it follows
// a letter or a digit and at most maxMarks-1 other marks. Newlines stay; a tab becomes \t.
func Visible(s string) string {
	var b strings.Builder
	marks := maxMarks // that stand on the last letter; maxMarks if there is none
	for i, r := range s {
		mark := unicode.Is(unicode.M, r)
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"): // a broken byte
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || !hidden(r) && !(mark && marks >= maxMarks):
			b.WriteRune(r)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		switch {
		case mark && !hidden(r):
			marks++
		case unicode.In(r, unicode.L, unicode.N) && !hidden(r):
			marks = 0
		default:
			marks = maxMarks
		}
	}
	return b.String()
}

// maxMarks is the number of combining marks on one letter that Visible shows. All marks share the cells of their letter,
// so that thousands of them look like one. Few words of living languages have more than four.
const maxMarks = 4

// hidden reports whether a terminal shows nothing for r: a control or format character, a surrogate, a private or unassigned
// code point, any space but the common one, and a letter or symbol without ink.
func hidden(r rune) bool { return !unicode.IsPrint(r) || invisible.Rune(r) || blank(r) }

// blank reports whether r is a symbol or mark that has width and no ink, or whose shape depends on something that is not
// there: the object replacement character, the blank Braille pattern, a null notehead and the Khitan filler.
func blank(r rune) bool { return r == 0xFFFC || r == 0x2800 || r == 0x1D159 || r == 0x16FE4 }
