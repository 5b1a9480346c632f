package main

import (
	"fmt"
	"strings"
)

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// colored reports whether w may be given colours. A flag outweighs the environment: NO_COLOR (no-color.org), CLICOLOR
// and CLICOLOR_FORCE (bixense.com/clicolors).
func (a *app) colored(w any) bool {
	force := a.lookup("CLICOLOR_FORCE")
	switch {
	case a.color != colorAuto:
		return a.color == colorAlways
	case a.lookup("NO_COLOR") != "", a.lookup("TERM") == "dumb":
		return false
	case force != "" && force != "0":
		return true
	}
	return a.lookup("CLICOLOR") != "0" && isTerminal(w)
}

// note says something to a person who watches; programs that read stderr get it too, but nothing moves.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, a.hinted(printable(fmt.Sprintf(format, args...))))
}

// hinted has the commands that a text proposes act for the tenant that this one was told to act for: without that they would
// find nothing. A tenant of the environment, or of the configuration, is theirs by itself.
func (a *app) hinted(text string) string {
	tenant := a.overrides["tenant"]
	if tenant == "" {
		return text
	}
	return strings.NewReplacer("`starter ", "`starter --tenant "+tenant+" ", "\n  starter ", "\n  starter --tenant "+tenant+" ").Replace(text)
}

// aside is a note that may be overlooked: it is dim where there are colours.
func (a *app) aside(format string, args ...any) {
	text := a.hinted(printable(fmt.Sprintf(format, args...)))
	if a.colored(a.err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.err, text)
}
