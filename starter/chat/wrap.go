package chat

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// tabWidth is how many columns a tab becomes: where the next stop of the terminal is depends on what stands before it.
const tabWidth = 4

// wrapText breaks a text without escapes into lines of at most width columns, between words where it can. Widths are
// counted as a terminal without Unicode's grapheme mode counts them, which is never less than one with it does.
func wrapText(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabWidth))
	text = strings.ReplaceAll(text, hyphen, "\uFFFD")
	text = strings.ReplaceAll(text, "-", hyphen) // Wrap breaks behind it, within a flag or an address too
	return fit(strings.ReplaceAll(ansi.WrapWc(text, max(width, 1), ""), hyphen, "-"), width)
}

// hyphen stands for one that no line is broken at. It is a character of private use, one column wide.
const hyphen = "\uF5A8"

// breakText breaks a text into lines of at most width columns wherever that is: code and arguments keep each space.
func breakText(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", strings.Repeat(" ", tabWidth))
	return fit(text, width)
}

// fit breaks lines that are wider than width. It is the last step before text goes to the terminal, and counts for
// itself: a line that the terminal breaks moves everything below it. A character that does not fit at all becomes "?".
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

// fitLine breaks one line. Escapes are carried over the break by ansi's Hardwrap, which keeps together what Unicode draws as
// one: a sequence of joined emoji that is wider than the line comes apart, and a character that is becomes "?".
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

// sgrOnly takes every control and escape sequence out of a text but SGR ones (ECMA-48, 8.3.117), and those too where
// colours is false. The Markdown renderer writes hyperlinks, and entities may decode to controls: what stands in an answer
// is not a reason to send more than colours.
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

// escape is the escape sequence that a text begins with, and whether it is one of SGR with the parameters of our looks. An
// OSC without its end is ESC alone: it must not swallow the text.
func escape(text string) (seq string, sgr bool) {
	switch {
	case strings.HasPrefix(text, "\x1b["):
		n := 2
		for n < len(text) && text[n] >= 0x20 && text[n] < 0x40 {
			n++
		}
		if n < len(text) && text[n] == 'm' {
			return text[:n+1], harmless(text[2:n])
		}
	case strings.HasPrefix(text, "\x1b]"):
		if end := strings.IndexByte(text, 0x07); end >= 0 && end < maxBlock {
			return text[:end+1], false
		}
	}
	return text[:1], false
}

// harmless reports whether SGR parameters only make text bold, faint, italic, underlined, struck out or coloured, or
// normal again. Concealed text (8) and blinking are not among them.
func harmless(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		switch p {
		case "", "0", "1", "2", "3", "4", "9", "22", "23", "24", "29", "31", "32", "33", "34", "35", "36", "39", "91", "92", "93", "94", "95", "96":
		default:
			return false
		}
	}
	return true
}
