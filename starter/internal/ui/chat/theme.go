package chat

import (
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/glamour/v2/ansi"
	"charm.land/glamour/v2/styles"
	"charm.land/lipgloss/v2"
)

// theme holds the styles of the chat for a dark or a light terminal, or for one without colours.
type theme struct {
	dim, user, accent, warn, fault, added, removed lipgloss.Style
	markdown                                       ansi.StyleConfig
	help                                           help.Styles
}

// newTheme returns the theme for a terminal with or without colours, and with a dark or a light background.
func newTheme(colour, dark bool) theme {
	if !colour {
		return theme{markdown: plainMarkdown(styles.NoTTYStyleConfig)}
	}
	pick := lipgloss.LightDark(dark)
	style := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	t := theme{
		dim: style("#6b6b6b", "#8a8a8a"), user: style("#5a3fc0", "#a99bff").Bold(true),
		accent: style("#00707f", "#56c8d8"), warn: style("#8a5a00", "#e5b567").Bold(true),
		fault: style("#b3261e", "#ff7b72"), added: style("#1a7f37", "#56d364"), removed: style("#b3261e", "#ff7b72"),
		markdown: plainMarkdown(styles.LightStyleConfig),
	}
	// the greys of help.DefaultStyles are too faint to read
	t.help = help.Styles{ShortKey: style("#303030", "#c8c8c8"), ShortDesc: t.dim, ShortSeparator: t.dim, Ellipsis: t.dim}
	if dark {
		t.markdown = plainMarkdown(styles.DarkStyleConfig)
	}
	return t
}

// plainMarkdown removes the margins of a Markdown style, because the chat lays out entries itself, and sets the bar of
// quotes: see quoteBar.
func plainMarkdown(s ansi.StyleConfig) ansi.StyleConfig {
	none := uint(0)
	bar := string(quoteBar)
	s.Document.Margin, s.Document.BlockPrefix, s.Document.BlockSuffix = &none, "", ""
	s.BlockQuote.IndentToken = &bar
	return s
}

// paint applies a style to each line separately, so that the style ends with the line.
func paint(s lipgloss.Style, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = s.Render(line)
	}
	return out
}

// paintDiff colours the lines of a unified diff.
func (t theme) paintDiff(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "+"):
			out[i] = t.added.Render(line)
		case strings.HasPrefix(line, "-"):
			out[i] = t.removed.Render(line)
		case strings.HasPrefix(line, "@@"):
			out[i] = t.accent.Render(line)
		default:
			out[i] = line
		}
	}
	return out
}
