package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
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
	fmt.Fprintln(a.err, a.withTypedCommands(printable(fmt.Sprintf(format, args...))))
}

// aside prints a note of little importance, which is dim if stderr has colours.
func (a *app) aside(format string, args ...any) {
	text := a.withTypedCommands(printable(fmt.Sprintf(format, args...)))
	if a.colored(a.err) {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(a.err, text)
}

// proposed matches the beginning of a command that a message proposes: in backticks, or on an indented line.
var proposed = regexp.MustCompile("(?m)(`|^  )starter ")

// withTypedCommands spells the commands that a text proposes as the user would type them: with the name under which the
// program was started, and with this command's --config and --tenant, without which the commands would not find the
// session.
func (a *app) withTypedCommands(text string) string {
	command := "starter"
	if a.program != "" {
		command = a.program
	}
	if a.configPath != "" {
		command += " --config " + quoted(a.configPath)
	}
	if tenant := a.overrides["tenant"]; tenant != "" {
		command += " --tenant " + quoted(tenant)
	}
	return proposed.ReplaceAllString(text, "${1}"+strings.ReplaceAll(command, "$", "$$")+" ")
}

// programName returns how the user started the program with the path arg0: `go run` builds it below a folder whose name
// contains go-build.
func programName(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./starter"
	}
	if filepath.IsAbs(arg0) {
		return filepath.Base(arg0)
	}
	return arg0
}
