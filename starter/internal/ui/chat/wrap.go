package chat

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// tabWidth is how many columns replace a tab. The terminal's own tab stops would depend on the text before the tab.
const tabWidth = 4

// wrapText breaks a text without escapes into lines of at most width columns, between words if possible. It counts
// widths as a terminal without Unicode's grapheme mode does, which is never less than a terminal with that mode counts.
func wrapText(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabWidth))
	text = strings.ReplaceAll(text, hyphen, "\uFFFD")
	text = strings.ReplaceAll(text, "-", hyphen) // Wrap breaks after a hyphen, even within a flag or an address
	return fit(strings.ReplaceAll(ansi.WrapWc(text, max(width, 1), ""), hyphen, "-"), width)
}

// hyphen replaces a hyphen at which no line may break. It is a private-use character, one column wide.
const hyphen = "\uF5A8"

// breakText breaks a text into lines of at most width columns at any character, because code and arguments keep each
// space.
func breakText(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabWidth))
	return fit(text, width)
}

// fit breaks lines that are wider than width. It is the last step before text goes to the terminal, and counts widths
// itself, because a line that the terminal breaks moves everything below it. A character that is wider than the line
// becomes "?".
func fit(text string, width int) []string {
	width = max(width, 1)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if ansi.StringWidthWc(line) <= width {
			out = append(out, line)
			continue
		}
		out = append(out, fitLine(line, width)...)
	}
	return out
}

// fitLine breaks one line. The Hardwrap of package ansi carries escapes over the break and keeps together what Unicode
// draws as one. A sequence of joined emoji that is wider than the line is therefore split, and a character that is
// wider than the line becomes "?".
func fitLine(line string, width int) []string {
	simpler := []func(string) string{
		func(s string) string { return s },
		func(s string) string { return strings.ReplaceAll(s, joiner, "") },
		func(s string) string { return strings.Map(oneColumn, s) },
	}
	var lines []string
	for _, simplify := range simpler {
		line = simplify(line)
		lines = strings.Split(ansi.HardwrapWc(line, width, true), "\n")
		if !slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidthWc(l) > width }) {
			break
		}
	}
	return lines
}

// joiner is the zero-width joiner of emoji sequences.
const joiner = "\u200d"

func oneColumn(r rune) rune {
	if ansi.StringWidthWc(string(r)) > 1 {
		return '?'
	}
	return r
}

// cutWidth shortens a line to width columns.
func cutWidth(line string, width int) string {
	if ansi.StringWidthWc(line) <= width {
		return line
	}
	return ansi.TruncateWc(line, max(width, 1), "…")
}

// sgrOnly removes every control and escape sequence from a text except SGR sequences (ECMA-48, 8.3.117), and removes
// those too if colours is false. The Markdown renderer writes hyperlinks, and entities may decode to controls: the text
// of an answer must not send more than colours to the terminal.
func sgrOnly(text string, colours bool, drop func(rune) bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		if text[0] == 0x1b {
			seq, sgr := escape(text)
			if sgr && colours {
				b.WriteString(seq)
			}
			text = text[len(seq):]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		if r == '\n' || r == '\t' || !drop(r) {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

// escape returns the escape sequence that a text begins with, and whether it is an SGR sequence with the parameters of
// our looks. For an OSC sequence without an end it returns ESC alone, so that the sequence does not swallow the text.
func escape(text string) (seq string, sgr bool) {
	switch {
	case strings.HasPrefix(text, "\x1b["):
		n := 2
		for n < len(text) && text[n] >= 0x20 && text[n] < 0x40 {
			n++
		}
		if n < len(text) && text[n] == 'm' {
			return text[:n+1], isPlainStyle(text[2:n])
		}
	case strings.HasPrefix(text, "\x1b]"):
		if end := strings.IndexByte(text, 0x07); end >= 0 && end < maxBlock {
			return text[:end+1], false
		}
	}
	return text[:1], false
}

// isPlainStyle reports whether SGR parameters only make text bold, faint, italic, underlined, struck out or coloured,
// or reset it. Concealed text (8) and blinking are not isPlainStyle.
func isPlainStyle(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		switch p {
		case "", "0", "1", "2", "3", "4", "9", "22", "23", "24", "29", "31", "32", "33", "34", "35", "36", "39", "91", "92",
			"93", "94", "95", "96":
		default:
			return false
		}
	}
	return true
}
