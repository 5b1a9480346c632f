package terminal

import (
	"fmt"
	"strings"
	"unicode"
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

// Visible writes out what Printable takes away, as Go's escapes (\x1b, \u202e), and what has no shape of its own, such as
// a zero-width space: whoever decides about a text must see all of it. Newlines stay; a tab becomes \t.
func Visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"): // a broken byte
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || !hidden(r):
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
	}
	return b.String()
}

// hidden are the characters that a terminal does not show: controls, formats, surrogates, private and unassigned ones,
// and every space but the common one.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || filler(r)
}

// filler are letters that take no ink: U+115F, U+1160, U+3164 and U+FFA0 of Hangul.
func filler(r rune) bool { return r == 0x115F || r == 0x1160 || r == 0x3164 || r == 0xFFA0 }
