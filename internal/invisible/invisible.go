package invisible

import (
	"unicode"
	"unicode/utf8"
)

// Rune reports whether r is invisible on a screen: a control character other than newline and tab, a format character,
// or a character with Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt).
func Rune(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	case r < 0xad: // below the first format character, only the C1 controls are invisible
		return r < 0xa0
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Prefix returns the length in bytes of the invisible character at the beginning of s, or 0 if s does not begin with
// one.
func Prefix(s string) int {
	if s == "" || s[0] >= ' ' && s[0] < 0x7f {
		return 0
	}
	if r, n := utf8.DecodeRuneInString(s); Rune(r) {
		return n
	}
	return 0
}
