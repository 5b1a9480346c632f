package main

import (
	"strings"
	"unicode"
)

// printable takes out of a text what could move the cursor, set a title or write to the clipboard: C0 and C1 controls
// except newline and tab, and Unicode's direction controls. Of an escape sequence its letters are left, which do
// nothing. It looks at one character at a time, so that a stream is as safe as the whole. Models and tools write what
// is printed here.
func printable(s string) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unprintable(r):
			return -1
		}
		return r
	}
	return strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
}

// unprintable are the C0 and C1 controls, DEL, and the characters that turn the direction of writing.
func unprintable(r rune) bool { return unicode.IsControl(r) || isDirection(r) }

// isDirection: the bidirectional controls of Unicode, UAX #9 section 2.
func isDirection(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C
}

// line makes one line of a text, of at most n runes.
func line(s string, n int) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
