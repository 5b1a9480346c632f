package termsafe

import (
	"strings"
)

// Rows breaks a text into the rows that it takes on a terminal with the given number of columns. It breaks at any
// character and drops nothing, not even spaces. If columns is not positive, it breaks only at newlines.
func Rows(s string, columns int) []string {
	var out []string
	for text := range strings.SplitSeq(s, "\n") {
		row, used := 0, 0 // the offset at which the row begins, and its columns so far
		for i, r := range text {
			w := width(r)
			if columns > 0 && used+w > columns && i > row {
				out = append(out, text[row:i])
				row, used = i, 0
			}
			used += w
		}
		out = append(out, text[row:])
	}
	return out
}

// Fit returns the beginning of a line that takes at most the given number of columns, with an ellipsis if something is
// cut off.
func Fit(line string, columns int) string {
	rows := Rows(line, columns)
	if len(rows) == 1 || columns <= 0 {
		return line
	}
	return Rows(line, columns-1)[0] + "…"
}

// width returns the maximum number of columns that a character takes on any terminal. Terminals differ: a row may look
// shorter than it is counted, but never exceeds its columns. Wide characters begin at U+1100 (Unicode UAX #11).
func width(r rune) int {
	if r >= 0x1100 && !narrow(r) {
		return 2
	}
	return 1
}

// narrow reports whether r is in a block after U+1100 in which every character takes one column. It knows the blocks
// that programs print: from Ethiopic to Greek Extended, and from General Punctuation to Geometric Shapes except the few
// clocks and squares that are emoji.
func narrow(r rune) bool {
	return r >= 0x1200 && r <= 0x2319 || r >= 0x2400 && r <= 0x25FC
}
