package chat

// look is how a piece of text is shown: SGR parameters (ECMA-48, 8.3.117). Only the terminal's own 16 colours are used,
// which fit its background.
type look string

const (
	dim    look = "2"
	bold   look = "1"
	red    look = "31"
	green  look = "32"
	yellow look = "33"
	cyan   look = "36"
)

// palette shows looks, or text as it is where there are no colours.
type palette bool

func (p palette) paint(l look, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + string(l) + "m" + text + "\x1b[0m"
}

// paintLines paints each line by itself: a look must not run over a line's end.
func (p palette) paintLines(l look, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = p.paint(l, line)
	}
	return out
}
