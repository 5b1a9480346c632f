package cli

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

// colored reports whether the command may write colours to w. A flag takes precedence over the environment: NO_COLOR
// (no-color.org), CLICOLOR and CLICOLOR_FORCE (bixense.com/clicolors).
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

// note prints a message for the user on stderr. It contains no escape sequences, so programs can read it too.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, a.hinted(printable(fmt.Sprintf(format, args...))))
}

// hinted adds the --tenant of this command to the commands that a text proposes; otherwise they would not find the
// session. A tenant that comes from the environment or the configuration applies to them without a flag.
func (a *app) hinted(text string) string {
	tenant := a.overrides["tenant"]
	if tenant == "" {
		return text
	}
	return strings.NewReplacer("`starter ", "`starter --tenant "+tenant+" ", "\n  starter ", "\n  starter --tenant "+tenant+" ").Replace(text)
}

// aside prints a note of little importance, which is dim if stderr has colours.
func (a *app) aside(format string, args ...any) {
	text := a.hinted(printable(fmt.Sprintf(format, args...)))
	if a.colored(a.err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.err, text)
}
