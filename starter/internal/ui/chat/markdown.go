package chat

import (
	"strings"
	"unicode/utf8"

	"charm.land/glamour/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Private-use characters that replace & and < while Markdown is rendered: an entity may decode to a control, and the
// renderer would not show what looks like HTML. If the text itself has these characters, they become U+FFFD. Replacing
// or removing them instead could form a key that the redactor did not see.
const (
	ampersand = '\uF5A6'
	less      = '\uF5A7'
)

// quoteBar stands for the bar of a quote. The renderer takes each bar for one column wide, and the bar with its space
// has two.
const quoteBar = '\uF5A9'

// restore replaces the stand-ins with & and < again, also within addresses, where they are percent-encoded.
var restore = strings.NewReplacer(string(ampersand), "&", string(less), "<", string(quoteBar), "│ ",
	"%EF%96%A6", "&", "%EF%96%A7", "<")

func standIn(r rune) rune {
	switch r {
	case ampersand, less, quoteBar:
		return utf8.RuneError
	case '&':
		return ampersand
	case '<':
		return less
	}
	return r
}

// narrowColumns is the width in columns below which nothing is indented or rendered as Markdown.
const narrowColumns = 12

// render lays out Markdown in lines of at most width columns. The lines hold only text and SGR sequences.
func (t theme) render(text string, width int) []string {
	text = termsafe.Printable(text)
	nested, complex := complexity(text)
	if width < narrowColumns+nested || complex {
		return wrapText(text, width)
	}
	out, ok := t.tryRender(strings.Map(standIn, steady.Replace(text)), width-nested)
	if !ok {
		return wrapText(text, width)
	}
	return trimBlank(breakText(restore.Replace(out), width))
}

// tryRender renders with glamour; false if glamour cannot render the text.
func (t theme) tryRender(text string, width int) (out string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	r, err := glamour.NewTermRenderer(glamour.WithStyles(t.markdown), glamour.WithWordWrap(width),
		glamour.WithPreservedNewLines(), glamour.WithInlineTableLinks(true))
	if err != nil {
		return "", false
	}
	out, err = r.Render(text)
	out = sgrOnly(out)
	return out, err == nil && strings.TrimSpace(ansi.Strip(out)) != ""
}

// Bounds on what the renderer receives. Its time grows exponentially with the depth of nested quotes (a hundred levels
// take hours), and with the square of a table's number of columns.
const (
	maxNesting  = 8
	maxColumns  = 16
	maxMarkdown = 64 << 10 // bytes
)

// complexity returns the depth of the text's quotes, and whether the text is longer or has deeper nesting or more
// columns than text written by hand. Such text is not rendered.
func complexity(text string) (quotes int, complex bool) {
	complex = len(text) > maxMarkdown
	for line := range strings.Lines(text) {
		deep, levels := nesting(line)
		quotes = max(quotes, deep)
		complex = complex || levels > maxNesting || strings.Count(line, "|") > maxColumns+1
	}
	return quotes, complex
}

// nesting is an upper bound on how many quotes, and how many quotes and lists, a line is in. It counts their markers,
// and one level for every two columns of blanks before and between the markers.
func nesting(line string) (quotes, levels int) {
	blanks := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			blanks++
		case c == '\t':
			blanks += 4
		case c == '>':
			quotes++
			levels++
		case strings.IndexByte("-*+:.)", c) >= 0:
			levels++
		case c >= '0' && c <= '9':
		default:
			return quotes, levels + blanks/2
		}
	}
	return quotes, levels + blanks/2
}

// trimBlank removes trailing blanks from each line, and blank lines from both ends.
func trimBlank(lines []string) []string {
	for i, line := range lines {
		bare := strings.TrimRight(ansi.Strip(line), " ")
		if bare == "" {
			lines[i] = ""
		} else {
			lines[i] = ansi.TruncateWc(line, ansi.StringWidthWc(bare), "")
		}
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
