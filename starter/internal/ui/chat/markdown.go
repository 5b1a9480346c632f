package chat

import (
	"strings"
	"unicode/utf8"

	"charm.land/glamour/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Private-use characters that replace & and < while Markdown is rendered, because the renderer would decode an entity
// to a control character and would not show what looks like HTML. If the text itself has these characters, they become
// U+FFFD: if they became & and <, or were removed, the text could then contain a key that the redactor has not seen.
const (
	ampersand = '\uF5A6'
	less      = '\uF5A7'
)

// quoteBar is the private-use character that stands for the bar of a quote and the space after it while Markdown is
// rendered. The renderer counts the bar as one column, so render reserves another one for each level of quotes.
const quoteBar = '\uF5A9'

// restore replaces the private-use characters with what they stand for, also in addresses, where they are
// percent-encoded.
var restore = strings.NewReplacer(string(ampersand), "&", string(less), "<", string(quoteBar), "│ ",
	"%EF%96%A6", "&", "%EF%96%A7", "<")

// standIn returns the character that stands for r while Markdown is rendered.
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

// narrowColumns is the width in columns below which Markdown is not rendered and the input has no prompt.
const narrowColumns = 12

// render lays out Markdown in lines of at most width columns, which contain only text and SGR sequences (colours and
// styles). If the text is too complex or the screen too narrow, it only wraps the text.
func (t theme) render(text string, width int) []string {
	text = termsafe.Printable(text)
	quotes, complex := complexity(text)
	if width < narrowColumns+quotes || complex {
		return wrapText(text, width)
	}
	// One column less for each level of quotes: see quoteBar.
	out, ok := t.tryRender(strings.Map(standIn, stableWidth.Replace(text)), width-quotes)
	if !ok {
		return wrapText(text, width)
	}
	return trimBlank(breakText(restore.Replace(out), width))
}

// tryRender renders Markdown with glamour. It returns false if glamour fails, panics or returns no text.
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

// Bounds of a text that is rendered. The renderer's time grows exponentially with the depth of nested quotes (a hundred
// levels take hours), and with the square of a table's number of columns.
const (
	maxNesting  = 8        // levels of quotes and lists
	maxColumns  = 16       // of a table
	maxMarkdown = 64 << 10 // bytes
)

// complexity returns how deep quotes are nested in a text, and whether the text exceeds the bounds, so that it must not
// be rendered.
func complexity(text string) (quotes int, complex bool) {
	complex = len(text) > maxMarkdown
	for line := range strings.Lines(text) {
		lineQuotes, levels := nesting(line)
		quotes = max(quotes, lineQuotes)
		tooWide := strings.Count(line, "|") > maxColumns+1 // with a bar at both ends of the row
		complex = complex || levels > maxNesting || tooWide
	}
	return quotes, complex
}

// nesting returns how many quotes the markers at the beginning of a line open, and an upper bound of the number of
// quotes and lists that the line is in. For that it also counts every two columns of blanks as a level.
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
		case c >= '0' && c <= '9': // the number of a list item, whose dot counts
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
