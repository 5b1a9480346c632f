package chat

import (
	"fmt"
	"html"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/hinshun/vt10x"
)

// The attributes of vt10x.Glyph.Mode, which vt10x does not export.
const (
	modeUnderline = 2
	modeBold      = 4
	modeItalic    = 16
)

// The size of a cell of a picture, in pixels, and the colours of a dark terminal.
const (
	cellWidth, cellHeight, margin = 8.4, 18, 12
	ink, paper                    = "#d4d4d4", "#16181d"
)

// picture draws a terminal as an SVG image.
func picture(terminal vt10x.Terminal, width, height int) string {
	var out strings.Builder
	right, bottom := float64(width)*cellWidth+2*margin, height*cellHeight+2*margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %d" width="%g" height="%d">`+"\n",
		right, bottom, right, bottom)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", paper)
	out.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" ` +
		`font-size="14">` + "\n")
	for y := range height {
		for x := 0; x < width; {
			first, text := terminal.Cell(x, y), ""
			from := x
			for ; x < width && alike(first, terminal.Cell(x, y)); x++ {
				text += string(max(terminal.Cell(x, y).Char, ' '))
			}
			run(&out, first, text, from, y, x-from)
		}
	}
	return out.String() + "</g>\n</svg>\n"
}

func alike(a, b vt10x.Glyph) bool { return a.Mode == b.Mode && a.FG == b.FG && a.BG == b.BG }

// run draws cells that look alike. The length keeps the grid if the viewer's font is wider or narrower, and the spaces
// do not break so that the viewer keeps them.
func run(out *strings.Builder, g vt10x.Glyph, text string, x, y, cells int) {
	fg, bg := colourOf(g.FG), colourOf(g.BG)
	left := margin + float64(x)*cellWidth
	if bg != paper {
		fmt.Fprintf(out, `<rect x="%g" y="%d" width="%g" height="%d" fill="%s"/>`+"\n", left, margin+y*cellHeight,
			float64(cells)*cellWidth, cellHeight, bg)
	}
	bare := strings.Trim(text, " ")
	if bare == "" {
		return
	}
	left += float64(len(text)-len(strings.TrimLeft(text, " "))) * cellWidth
	style := ""
	for _, look := range []struct {
		mode      int16
		attribute string
	}{{modeBold, ` font-weight="bold"`}, {modeItalic, ` font-style="italic"`},
		{modeUnderline, ` text-decoration="underline"`}} {
		if g.Mode&look.mode != 0 {
			style += look.attribute
		}
	}
	fmt.Fprintf(out, `<text x="%g" y="%d" textLength="%g" fill="%s"%s>%s</text>`+"\n", left,
		margin+y*cellHeight+13, float64(len([]rune(bare)))*cellWidth, fg, style,
		strings.ReplaceAll(html.EscapeString(bare), " ", "\u00a0"))
}

// colourOf converts a colour of the emulator, which has already swapped the colours of reversed cells.
func colourOf(c vt10x.Color) string {
	switch {
	case c == vt10x.DefaultFG:
		return ink
	case c == vt10x.DefaultBG:
		return paper
	case c < 256:
		r, g, b, _ := ansi.IndexedColor(c).RGBA()
		return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
	}
	return fmt.Sprintf("#%06x", uint32(c))
}
