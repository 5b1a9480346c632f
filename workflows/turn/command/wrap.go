package command

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// wrappers are programs that start the program which their arguments name. xargs adds words of its input.
var wrappers = []string{"env", "timeout", "time", "nice", "nohup", "command", "stdbuf", "setsid", "ionice", "chrt",
	"taskset", "watch", "flock", "exec", "builtin", "busybox", "toybox", "sudo", "doas", "su", "runuser", "unshare",
	"nsenter", "chroot", "strace", "ltrace", "gdb", "script", "parallel", "xargs", "find", "fd", "entr", "caffeinate",
	"unbuffer", "setarch", "linux32", "linux64", "prlimit", "systemd-run", "dbus-run-session", "ssh-agent", "bwrap",
	"firejail", "fakeroot", "proot", "npx", "pnpx", "bunx", "direnv", "dotenv", "time.exe", "catchsegv", "valgrind",
	"perf", "hyperfine", "tsp", "at", "batch", "make", "rtk", "git", "trap"}

// shells run a line that is one of their words.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "eval", "busybox", "watch", "su",
	"script",
	"parallel", "trap", "flock", "ssh", "hyperfine", "entr", "strace", "npx"}

// changers are builtins after which the shell may make other calls than the line shows.
var changers = []string{"alias", "unalias", "source", ".", "hash", "enable", "set", "shopt", "eval", "trap", "export",
	"readonly", "typeset", "declare", "local"}

// behind adds a call and those that it makes by its words: each rest of the words of a wrapper, and the lines in the
// words of a shell.
func (l *line) behind(c call, depth int) {
	l.all = append(l.all, c)
	if len(c.words) == 0 || len(l.all) > maxCalls {
		return
	}
	first := c.words[0]
	name := path.Base(first.text)
	switch {
	case !first.known:
		l.opaque = true
	case slices.Contains(changers, name):
		l.opaque = true
	}
	if slices.Contains(shells, name) {
		l.lines(c, depth)
	}
	if !slices.Contains(wrappers, name) && !slices.Contains(shells, name) {
		return
	}
	for i := 1; i < len(c.words) && len(l.all) <= maxCalls; i++ {
		rest := call{words: c.words[i:], more: name == "xargs" || name == "parallel" || c.more}
		if !rest.words[0].known {
			l.opaque = true
			continue
		}
		l.all = append(l.all, rest)
		if slices.Contains(shells, path.Base(rest.words[0].text)) {
			l.lines(rest, depth)
		}
	}
}

// lines adds the lines in the words of a shell. A shell without a line reads one from its input or from a file.
func (l *line) lines(c call, depth int) {
	if len(c.words) == 1 || c.more {
		l.opaque = true
	}
	for _, w := range c.words[1:] {
		switch {
		case !w.known:
			l.opaque = true
		case strings.ContainsAny(w.text, " \t\n;|&<>$`") || path.Base(c.words[0].text) == "eval":
			l.add(w.text, depth+1)
		}
	}
}

// stripped returns the call that a plain wrapper starts, or the call itself. Only wrappers in a form that is known are
// stripped.
func (c call) stripped() call {
	for len(c.words) > 1 {
		rest := c.words[1:]
		switch c.words[0].text {
		case "time", "nohup", "command":
		case "nice":
			if rest[0].text == "-n" && len(rest) > 1 && isNumber(rest[1].text) {
				rest = rest[2:]
			}
		case "timeout":
			for len(rest) > 0 && (rest[0].text == "--foreground" || rest[0].text == "--preserve-status") {
				rest = rest[1:]
			}
			if len(rest) == 0 || !isDuration(rest[0].text) {
				return c
			}
			rest = rest[1:]
		default:
			return c
		}
		if len(rest) == 0 || strings.HasPrefix(rest[0].text, "-") {
			return c // an option that is not known
		}
		c.words = rest
	}
	return c
}

var (
	number   = regexp.MustCompile(`^-?[0-9]{1,4}$`)
	duration = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,3})?[smhd]?$`)
)

func isNumber(text string) bool { return number.MatchString(text) }

func isDuration(text string) bool { return duration.MatchString(text) }
