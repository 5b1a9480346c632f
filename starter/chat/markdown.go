package chat

import (
	"strings"
	"unicode/utf8"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/ansi"

	"github.com/everturn/everturn/starter/terminal"
)

// markdown renders blocks for a width. It is not safe for use by several goroutines.
type markdown struct {
	palette palette
	width   int
	prose   *glamour.TermRenderer
}

// codeIndent is how far code stands in, in columns, where there is room for it.
const codeIndent = 2

// narrow is the width below which nothing is indented.
const narrow = 12

// Characters of private use that stand for & and < while a block is rendered: an entity may be a control, and what looks
// like HTML would not be shown at all. Where the text itself has them, they become U+FFFD: what is put in their place, or
// joined by their absence, could be a key that the redactor did not see.
const (
	ampersand = '\uF5A6'
	less      = '\uF5A7'
)

// restore brings back what stood for & and <, within addresses too.
var restore = strings.NewReplacer(string(ampersand), "&", string(less), "<", "%EF%96%A6", "&", "%EF%96%A7", "<")

func disguise(r rune) rune {
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
	// A renderer with our style cannot fail to be made; without one, prose is shown as it is.
	m.prose, _ = glamour.NewTermRenderer(glamour.WithStyles(p.style()), glamour.WithWordWrap(m.width), glamour.WithPreservedNewLines(), glamour.WithInlineTableLinks(true))
	return m
}

// render lays out one block in lines of at most the width. They hold text and SGR sequences and nothing else.
func (m *markdown) render(b block) []string {
	text := terminal.Printable(b.text)
	if b.code {
		return m.code(text)
	}
	if m.width < narrow || wild(text) { // there is no room for tables, and words matter more
		return trimBlank(wrapText(text, m.width))
	}
	out := sgrOnly(m.tryProse(strings.Map(disguise, text)), bool(m.palette), terminal.Unprintable)
	out = restore.Replace(out)
	return trimBlank(fit(strings.ReplaceAll(out, "\t", strings.Repeat(" ", tabWidth)), m.width))
}

// Bounds on what the renderer is given. Its time grows exponentially with quotes in quotes (a hundred take hours), and with
// the square of a table's columns.
const (
	maxNesting = 8
	maxColumns = 16
)

// wild reports whether a text nests deeper, or has more columns, than a person would write. It is shown as it stands.
func wild(text string) bool {
	for line := range strings.Lines(text) {
		if nesting(line) > maxNesting || strings.Count(line, "|") > maxColumns+1 {
			return true
		}
	}
	return false
}

// nesting is an upper bound of how many quotes and lists a line is in: their markers, and a level for each two columns of
// blanks before and between them.
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

// tryProse renders with glamour. Text that it cannot take is shown as it is: an answer is never lost for its looks.
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
	if err != nil || strings.TrimSpace(sgrOnly(out, false, terminal.Unprintable)) == "" {
		return ""
	}
	return out
}

func (m *markdown) code(text string) []string {
	indent := ""
	if m.width >= narrow {
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

// trimBlank takes trailing blanks off each line, and blank lines off both ends.
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

// trimRight takes blanks off the end of a line; of escapes that stand among them what ends a look is kept.
func trimRight(line string) string {
	bare := strings.TrimRight(sgrOnly(line, false, terminal.Unprintable), " ")
	if bare == "" {
		return ""
	}
	for strings.HasSuffix(line, " ") {
		line = strings.TrimRight(line, " ")
	}
	return line
}

// style shows Markdown with our few looks; without colours its own signs stay.
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
		Table:          ansi.StyleTable{CenterSeparator: text("┼"), ColumnSeparator: text("│"), RowSeparator: text("─")},
		CodeBlock:      ansi.StyleCodeBlock{StyleBlock: ansi.StyleBlock{Margin: number(codeIndent)}},
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
