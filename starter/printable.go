package main

import (
	"strings"
	"unicode"
)

// printable takes out of a text what could move the cursor, set a title or write to the clipboard: C0 and C1 controls
// except newline and tab, the escape sequences they open, and Unicode's direction controls. Models and tools write
// what is printed here.
func printable(s string) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), isDirection(r):
			return -1
		}
		return r
	}
	return strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
}

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
