package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// steady replaces tabs, whose width would depend on the text before them, and removes the joiners of emoji, whose width
// depends on the terminal.
var steady = strings.NewReplacer("\t", "    ", "\u200d", "")

// hyphen replaces a hyphen at which no line may break. It is a private-use character, one column wide.
const hyphen = "\uF5A8"

var (
	hideHyphens = strings.NewReplacer(hyphen, "\uFFFD", "-", hyphen)
	showHyphens = strings.NewReplacer(hyphen, "-")
)

// columns returns the width of a line: the larger of those that terminals with and without Unicode's grapheme mode
// count. For a lone regional indicator the first is larger, for an emoji of several characters the second.
func columns(line string) int { return max(ansi.StringWidth(line), ansi.StringWidthWc(line)) }

// wrapText breaks a text without escapes into lines of at most width columns, between words if possible.
func wrapText(text string, width int) []string {
	text = hideHyphens.Replace(steady.Replace(text)) // WrapWc breaks after a hyphen, even within a flag or an address
	return breakText(showHyphens.Replace(ansi.WrapWc(text, max(width, 1), "")), width)
}

// breakText breaks a text into lines of at most width columns at any character, because code and arguments keep each
// space. No character is lost: what is longer than the screen would be cut without a sign.
func breakText(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(steady.Replace(text), "\n") {
		if ansi.StringWidthWc(line) > width {
			line = ansi.HardwrapWc(line, max(width, 1), true)
		}
		for part := range strings.SplitSeq(line, "\n") {
			if ansi.StringWidth(part) > width {
				part = ansi.Hardwrap(part, max(width, 1), true)
			}
			out = append(out, strings.Split(part, "\n")...)
		}
	}
	return out
}

// cutWidth shortens a line to width columns.
func cutWidth(line string, width int) string {
	if columns(line) <= width {
		return line
	}
	return ansi.Truncate(ansi.TruncateWc(line, max(width, 1), "…"), max(width, 1), "…")
}

// joined joins the first parts that fit into width columns, so that no part is cut.
func joined(parts []string, width int) string {
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

// clip shortens a list of lines to n, and replaces the last one with an ellipsis if it cuts any.
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

// sgrOnly removes every control and escape sequence from a text except SGR sequences (ECMA-48, 8.3.117): the Markdown
// renderer also writes hyperlinks.
func sgrOnly(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	var state byte
	p := ansi.GetParser()
	defer ansi.PutParser(p)
	for text != "" {
		seq, width, n, next := ansi.DecodeSequence(text, state, p)
		r, _ := utf8.DecodeRuneInString(seq)
		sgr := strings.HasPrefix(seq, "\x1b[") && ansi.Cmd(p.Command()) == 'm'
		if seq == "\n" || seq == "\t" || sgr || width > 0 || seq[0] >= utf8.RuneSelf && !termsafe.Unprintable(r) {
			b.WriteString(seq)
		}
		text, state = text[n:], next
	}
	return b.String()
}
