package terminal

import (
	"fmt"
	"strings"
)

// Rows breaks a text into the rows that it takes on a terminal of so many columns, wherever that is: nothing of it is
// lost, not even spaces. A number of columns that is not positive breaks at newlines only.
func Rows(s string, columns int) []string {
	var out []string
	for text := range strings.SplitSeq(s, "\n") {
		row, used := 0, 0
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

// Fit is the beginning of a line that takes at most so many columns, with an ellipsis where something is cut off.
func Fit(line string, columns int) string {
	rows := Rows(line, columns)
	if len(rows) == 1 || columns <= 0 {
		return line
	}
	return Rows(line, columns-1)[0] + "…"
}

// width is how many columns a character takes at most. Terminals differ; what may be wide anywhere counts two here (Unicode's
// UAX #11 begins with U+1100), so that a row never is too long.
func width(r rune) int {
	if r >= 0x1100 && !narrow(r) {
		return 2
	}
	return 1
}

// narrow are the blocks behind U+1100 in which everything takes one column, of those that programs print: from Ethiopic to
// Greek Extended, and from General Punctuation to Geometric Shapes but for the few clocks and squares that emoji have.
func narrow(r rune) bool {
	return r >= 0x1200 && r <= 0x2319 || r >= 0x2400 && r <= 0x25FC
}

// Bytes is a size as a person reads it.
func Bytes(n int64) string {
	size := float64(n)
	for _, unit := range []string{"bytes", "KB", "MB"} {
		if size < 1000 {
			return fmt.Sprintf("%.0f %s", size, unit)
		}
		size /= 1000
	}
	return fmt.Sprintf("%.0f GB", size)
}

// Media is something that is not text, in a word: [image/png, 34 KB].
func Media(kind string, bytes int64) string {
	return fmt.Sprintf("[%s, %s]", Line(kind, 60), Bytes(bytes))
}

// Headway is how far something has come, in words, by somebody's word who may say nonsense. A total of 0 is unknown.
func Headway(done, total float64, message string) string {
	out := fmt.Sprintf("%.4g", done)
	if total > 0 {
		out = fmt.Sprintf("%.0f%% (%.4g of %.4g)", min(max(100*done/total, 0), 100), done, total)
	}
	if message != "" {
		out += " " + Line(message, 80)
	}
	return out
}
