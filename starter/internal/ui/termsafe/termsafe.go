package termsafe

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/internal/invisible"
)

// Printable removes the characters of a text that could move the cursor, set a title or write to the clipboard: C0 and
// C1 controls except newline and tab, and Unicode's direction controls. It keeps the letters of an escape sequence,
// which have no effect by themselves. It examines one character at a time, so that a stream is as safe as the whole
// text.
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

// Unprintable reports whether r is a C0 or C1 control, DEL, or a character that changes the direction of writing.
func Unprintable(r rune) bool { return unicode.IsControl(r) || isDirection(r) }

// isDirection reports whether r is a bidirectional control (Unicode UAX #9, section 2).
func isDirection(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F || r == 0x061C
}

// Line returns a text as one printable line of at most n runes.
func Line(s string, n int) string {
	s = strings.Join(strings.Fields(Printable(s)), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Visible returns s with every character that has no visible shape written as a Go escape (\x1b, \u202e, \t), because a
// user must see the whole text of an approval. These are the characters that Printable removes, and others such as a
// zero-width space. Newlines stay. A letter or digit keeps up to four combining marks; further marks, and marks on
// anything else, become escapes. So do the characters of a grapheme cluster beyond the eighth, except ASCII.
func Visible(s string) string {
	var b strings.Builder
	marks := maxMarks   // the number of marks on the last letter or digit; maxMarks if a mark would not be on one
	place, next := 0, 0 // the number of characters of the cluster before this one, and where the next cluster begins
	for i, r := range s {
		if i >= next {
			cluster, _ := ansi.FirstGraphemeCluster(s[i:], ansi.WcWidth)
			place, next = 0, i+len(cluster)
		}
		mark := unicode.Is(unicode.M, r)
		excessive := mark && marks >= maxMarks || place >= maxCluster && r >= 0x80
		place++
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"): // an invalid byte
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || !hidden(r) && !excessive:
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

// maxMarks is the number of combining marks on one letter that Visible keeps. A terminal draws all marks in the cell of
// their letter, so thousands of them look like one. Words of living languages rarely have more than four.
const maxMarks = 4

// maxCluster is the number of characters of a grapheme cluster that Visible keeps. Clusters have no bound in Unicode: a
// hundred letters of class Prepend and the semicolon after them are one, and so are a hundred conjoining jamo, or an
// emoji with a hundred skin tones. A terminal may draw a cluster in one cell, and draws none that is wider than its
// window.
const maxCluster = 8

// hidden reports whether a terminal shows nothing for r: a control or format character, a surrogate, a private or
// unassigned code point, any space except U+0020, and a letter or symbol without ink.
func hidden(r rune) bool { return !unicode.IsPrint(r) || invisible.Rune(r) || blank(r) }

// blank reports whether r is a symbol or mark that has width but no ink, or whose shape depends on a missing object:
// the object replacement character, the blank Braille pattern, a null notehead and the Khitan filler.
func blank(r rune) bool { return r == 0xFFFC || r == 0x2800 || r == 0x1D159 || r == 0x16FE4 }

// Quoted quotes a word for a shell, if that is necessary. It also quotes a word that begins with a dash, so that a
// reader does not take it for a flag.
func Quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+,", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
