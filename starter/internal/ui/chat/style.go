package chat

// look is how a piece of text is shown, as SGR parameters (ECMA-48, 8.3.117). The chat uses only the terminal's own 16
// colours, which fit its background.
type look string

const (
	dim    look = "2"
	bold   look = "1"
	red    look = "31"
	green  look = "32"
	yellow look = "33"
	cyan   look = "36"
)

// palette paints text with looks. Without colours, it returns the text as it is.
type palette bool

func (p palette) paint(l look, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + string(l) + "m" + text + "\x1b[0m"
}

// paintLines paints each line separately, because a look must not continue past the end of a line.
func (p palette) paintLines(l look, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = p.paint(l, line)
	}
	return out
}
