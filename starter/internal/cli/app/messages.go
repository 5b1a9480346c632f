package app

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Colored reports whether the command may write colours to w. A flag takes precedence over the environment: NO_COLOR
// (no-color.org), CLICOLOR and CLICOLOR_FORCE (bixense.com/clicolors).
func (a *App) Colored(w any) bool {
	force := a.Lookup("CLICOLOR_FORCE")
	switch {
	case a.Color != ColorAuto:
		return a.Color == ColorAlways
	case a.Lookup("NO_COLOR") != "", a.Lookup("TERM") == "dumb":
		return false
	case force != "" && force != "0":
		return true
	}
	return a.Lookup("CLICOLOR") != "0" && IsTerminal(w)
}

// Note prints a message for the user on stderr, without escape sequences.
func (a *App) Note(format string, args ...any) {
	fmt.Fprintln(a.Err, a.WithTypedCommands(Printable(fmt.Sprintf(format, args...))))
}

// Aside prints a note of little importance, which is dim if stderr has colours.
func (a *App) Aside(format string, args ...any) {
	text := a.WithTypedCommands(Printable(fmt.Sprintf(format, args...)))
	if a.Colored(a.Err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.Err, text)
}

// proposed matches the word everturn at the beginning of a command that a message proposes: in backticks, or on a line
// that is indented by two spaces.
var proposed = regexp.MustCompile("(?m)(`|^  )everturn ")

// WithTypedCommands returns a text in which the proposed commands are spelled as the user must type them: with the name
// under which the program was started, and with this command's --config, --trust-once and --tenant, because the
// proposed command needs the same configuration and tenant to find the session.
func (a *App) WithTypedCommands(text string) string {
	command := "everturn"
	if a.Program != "" {
		command = a.Program
	}
	if a.ConfigPath != "" {
		command += " --config " + Quoted(a.ConfigPath)
	}
	if a.TrustOnce {
		command += " --trust-once"
	}
	if tenant := a.Overrides["tenant"]; tenant != "" {
		command += " --tenant " + Quoted(tenant)
	}
	return proposed.ReplaceAllString(text, "${1}"+strings.ReplaceAll(command, "$", "$$")+" ")
}

// ProgramName returns how the user started the program whose path is arg0. `go run` starts a program below a folder
// whose name begins with go-build.
func ProgramName(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./starter"
	}
	if filepath.IsAbs(arg0) {
		return filepath.Base(arg0)
	}
	return arg0
}

// Printable removes the characters of a text that could control a terminal, because the text may come from a model or a
// tool.
func Printable(s string) string { return termsafe.Printable(s) }

// Line returns a text as one line of at most n runes.
func Line(s string, n int) string { return termsafe.Line(s, n) }

// Quoted quotes a word for a shell, if that is necessary.
func Quoted(s string) string { return termsafe.Quoted(s) }

// DecidedAt describes a decision and its time.
func DecidedAt(d turn.Decision) string {
	return ui.Decision(d) + " (" + d.At.Local().Format(time.DateTime) + ")"
}
