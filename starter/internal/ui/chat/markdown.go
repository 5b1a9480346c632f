package chat

import (
	"strings"
	"unicode/utf8"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/ansi"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// markdown renders blocks for a width. It is not safe for concurrent use.
type markdown struct {
	palette palette
	width   int
	prose   *glamour.TermRenderer
}

// codeIndent is how many columns code is indented, if the width allows it.
const codeIndent = 2

// narrowColumns is the width in columns below which nothing is indented.
const narrowColumns = 12

// Private-use characters that replace & and < while a block is rendered: an entity may decode to a control, and the
// renderer would not show what looks like HTML. If the text itself has these characters, they become U+FFFD. Replacing
// or removing them instead could form a key that the redactor did not see.
const (
	ampersand = '\uF5A6'
	less      = '\uF5A7'
)

// restore replaces the stand-ins with & and < again, also within addresses, where they are percent-encoded.
var restore = strings.NewReplacer(string(ampersand), "&", string(less), "<", "%EF%96%A6", "&", "%EF%96%A7", "<")

func standIn(r rune) rune {
	switch r {
	case ampersand, less:
		return utf8.RuneError
	case '&':
		return ampersand
	case '<':
		return less
	}
	return r
}

func newMarkdown(p palette, width int) *markdown {
	m := &markdown{palette: p, width: max(width, 1)}
	// NewTermRenderer cannot fail with our style. Without a renderer, prose is shown as it is.
	m.prose, _ = glamour.NewTermRenderer(glamour.WithStyles(p.style()), glamour.WithWordWrap(m.width),
		glamour.WithPreservedNewLines(), glamour.WithInlineTableLinks(true))
	return m
}

// render lays out one block in lines of at most the width. The lines hold only text and SGR sequences.
func (m *markdown) render(b block) []string {
	text := termsafe.Printable(b.text)
	if b.code {
		return m.code(text)
	}
	// too narrow for tables, or too costly to render; the words matter more
	if m.width < narrowColumns || tooComplex(text) {
		return trimBlank(wrapText(text, m.width))
	}
	out := sgrOnly(m.tryProse(strings.Map(standIn, text)), bool(m.palette), termsafe.Unprintable)
	out = restore.Replace(out)
	return trimBlank(fit(strings.ReplaceAll(out, "\t", strings.Repeat(" ", tabWidth)), m.width))
}

// Bounds on what the renderer receives. Its time grows exponentially with the depth of nested quotes (a hundred levels
// take hours), and with the square of a table's number of columns.
const (
	maxNesting = 8
	maxColumns = 16
)

// tooComplex reports whether a text has deeper nesting or more columns than text written by hand. Such text is not
// rendered.
func tooComplex(text string) bool {
	for line := range strings.Lines(text) {
		if nesting(line) > maxNesting || strings.Count(line, "|") > maxColumns+1 {
			return true
		}
	}
	return false
}

// nesting is an upper bound on how many quotes and lists a line is in. It counts their markers, and one level for every
// two columns of blanks before and between the markers.
func nesting(line string) int {
	levels, blanks := 0, 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			blanks++
		case c == '\t':
			blanks += tabWidth
		case strings.IndexByte(">-*+:.)", c) >= 0:
			levels++
		case c >= '0' && c <= '9':
		default:
			return levels + blanks/2
		}
	}
	return levels + blanks/2
}

// tryProse renders with glamour. Text that glamour cannot render is shown as it is, so that formatting never loses an
// answer.
func (m *markdown) tryProse(text string) (out string) {
	defer func() {
		if recover() != nil || out == "" {
			out = strings.Join(wrapText(text, m.width), "\n")
		}
	}()
	if m.prose == nil {
		return ""
	}
	out, err := m.prose.Render(text)
	if err != nil || strings.TrimSpace(sgrOnly(out, false, termsafe.Unprintable)) == "" {
		return ""
	}
	return out
}

func (m *markdown) code(text string) []string {
	indent := ""
	if m.width >= narrowColumns {
		indent = strings.Repeat(" ", codeIndent)
	}
	lines := m.palette.paintLines(cyan, breakText(text, m.width-len(indent)))
	for i, line := range lines {
		if line != "" {
			lines[i] = indent + line
		}
	}
	return lines
}

// trimBlank removes trailing blanks from each line, and blank lines from both ends.
func trimBlank(lines []string) []string {
	for i, line := range lines {
		lines[i] = trimRight(line)
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// trimRight removes blanks from the end of a line. It keeps the escapes that end a look.
func trimRight(line string) string {
	bare := strings.TrimRight(sgrOnly(line, false, termsafe.Unprintable), " ")
	if bare == "" {
		return ""
	}
	for strings.HasSuffix(line, " ") {
		line = strings.TrimRight(line, " ")
	}
	return line
}

// style shows Markdown with the chat's few looks. Without colours, Markdown's own signs stay.
func (p palette) style() ansi.StyleConfig {
	text := func(s string) *string { return &s }
	yes := true
	s := ansi.StyleConfig{
		BlockQuote:     ansi.StyleBlock{Indent: number(1), IndentToken: text("│ ")},
		List:           ansi.StyleList{LevelIndent: 2},
		Heading:        ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{BlockSuffix: "\n"}},
		HorizontalRule: ansi.StylePrimitive{Format: "\n--------\n"},
		Item:           ansi.StylePrimitive{BlockPrefix: "• "},
		Enumeration:    ansi.StylePrimitive{BlockPrefix: ". "},
		Task:           ansi.StyleTask{Ticked: "[x] ", Unticked: "[ ] "},
		ImageText:      ansi.StylePrimitive{Format: "{{.text}} →"},
		Table: ansi.StyleTable{CenterSeparator: text("┼"), ColumnSeparator: text("│"),
			RowSeparator: text("─")},
		CodeBlock: ansi.StyleCodeBlock{StyleBlock: ansi.StyleBlock{Margin: number(codeIndent)}},
	}
	for level, h := range []*ansi.StyleBlock{&s.H1, &s.H2, &s.H3, &s.H4, &s.H5, &s.H6} {
		h.Prefix = strings.Repeat("#", level+1) + " "
	}
	if !p {
		s.Emph, s.Strong = signs("*"), signs("**")
		s.Strikethrough, s.Code.Prefix, s.Code.Suffix = signs("~~"), "`", "`"
		return s
	}
	s.Heading.Bold, s.Strong.Bold, s.Emph.Italic, s.Strikethrough.CrossedOut = &yes, &yes, &yes, &yes
	s.Code.Color, s.CodeBlock.Color, s.Link.Underline = text("6"), text("6"), &yes
	return s
}

func signs(s string) ansi.StylePrimitive { return ansi.StylePrimitive{BlockPrefix: s, BlockSuffix: s} }

func number(n uint) *uint { return &n }
