package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// stableWidth makes the width of a text independent of its position and of the terminal: it replaces tabs by spaces,
// and removes the joiners of emoji.
var stableWidth = strings.NewReplacer("\t", "    ", "\u200d", "")

// wrapHyphen is a private-use character, one column wide, that stands for a hyphen while a text is wrapped, because no
// line may break at a hyphen. If the text itself has it, it becomes U+FFFD.
const wrapHyphen = "\uF5A8"

var (
	hideHyphens = strings.NewReplacer(wrapHyphen, "\uFFFD", "-", wrapHyphen)
	showHyphens = strings.NewReplacer(wrapHyphen, "-")
)

// columns returns the maximum width of a line on any terminal. Terminals count graphemes or single characters: a lone
// regional indicator is wider in the first way, an emoji of several characters in the second.
func columns(line string) int { return max(ansi.StringWidth(line), ansi.StringWidthWc(line)) }

// wrapText breaks a text into lines of at most width columns, between words if possible. The text must not contain
// escape sequences.
func wrapText(text string, width int) []string {
	text = hideHyphens.Replace(stableWidth.Replace(text)) // WrapWc would break --flags and addresses after a hyphen
	return breakText(showHyphens.Replace(ansi.WrapWc(text, max(width, 1), "")), width)
}

// breakText breaks a text into lines of at most width columns, at any character. It is for code and arguments, in which
// each space counts: no character is lost.
func breakText(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(stableWidth.Replace(text), "\n") {
		// A line must fit by both ways to count columns: see columns.
		if ansi.StringWidthWc(line) > width {
			line = ansi.HardwrapWc(line, max(width, 1), true)
		}
		for part := range strings.SplitSeq(line, "\n") {
			if ansi.StringWidth(part) > width {
				part = ansi.Hardwrap(part, max(width, 1), true)
			}
			for row := range strings.SplitSeq(part, "\n") {
				if columns(row) > width { // a grapheme cluster that is wider than the window
					out = append(out, termsafe.Rows(row, max(width, 1))...)
					continue
				}
				out = append(out, row)
			}
		}
	}
	return out
}

// cutWidth shortens a line to width columns. A line that it cuts ends in an ellipsis.
func cutWidth(line string, width int) string {
	if columns(line) <= width {
		return line
	}
	return ansi.Truncate(ansi.TruncateWc(line, max(width, 1), "…"), max(width, 1), "…")
}

// joinFitting joins parts with " · " in a line of at most width columns. It leaves out each part that does not fit, but
// cuts the first one if that alone is too long.
func joinFitting(parts []string, width int) string {
	out := cutWidth(parts[0], width)
	for _, part := range parts[1:] {
		if part == "" {
			continue
		}
		if longer := out + " · " + part; columns(longer) <= width {
			out = longer
		}
	}
	return out
}

// clip returns at most n lines. If it leaves lines out, the last one that it returns is an ellipsis.
func clip(lines []string, n int) []string {
	switch {
	case len(lines) <= n:
		return lines
	case n <= 0:
		return nil
	}
	lines = append([]string(nil), lines[:n]...)
	lines[n-1] = "…"
	return lines
}

// sgrOnly removes every control and escape sequence from a text except SGR sequences (ECMA-48, 8.3.117), which set
// colours and styles. The Markdown renderer also writes others, for hyperlinks.
func sgrOnly(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	var state byte
	p := ansi.GetParser()
	defer ansi.PutParser(p)
	for text != "" {
		seq, width, n, next := ansi.DecodeSequence(text, state, p)
		r, _ := utf8.DecodeRuneInString(seq)
		isSGR := strings.HasPrefix(seq, "\x1b[") && ansi.Cmd(p.Command()) == 'm'
		isMark := seq[0] >= utf8.RuneSelf && !termsafe.Unprintable(r) // a character without a width
		if seq == "\n" || seq == "\t" || isSGR || width > 0 || isMark {
			b.WriteString(seq)
		}
		text, state = text[n:], next
	}
	return b.String()
}
