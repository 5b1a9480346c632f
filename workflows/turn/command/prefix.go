package command

import (
	"regexp"
	"slices"
	"strings"
)

// harmless are builtins that start nothing, and that change nothing but the directory. In bash, printf and test can set
// variables and run substitutions in their words.
var harmless = []string{"cd", "echo", "true", "false", ":", "pwd", "exit"}

// isHarmless reports whether a call starts nothing. cd must stay in the tree.
func (c call) isHarmless() bool {
	name := c.words[0].text
	if name == "cd" {
		return len(c.words) == 2 && inTree(c.words[1].text)
	}
	return slices.Contains(harmless, name)
}

// unbounded are programs that start what their arguments say: allowing them with any arguments allows everything.
var unbounded = []string{"sh", "bash", "dash", "zsh", "ksh", "fish", "env", "xargs", "sudo", "doas", "su", "eval",
	"exec", "python", "python2", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "tclsh", "awk", "gawk",
	"mawk", "npx", "bunx", "pnpx", "uvx", "pipx", "ssh", "docker", "podman", "kubectl", "find", "fd", "parallel", "watch",
	"setsid", "flock", "nohup", "timeout", "time", "nice", "command", "strace", "gdb", "busybox", "toybox", "unshare",
	"nsenter", "chroot", "bwrap", "script", "tmux", "screen", "expect", "alias", "source", ".", "trap", "set", "export",
	"ionice", "chrt", "taskset", "stdbuf", "systemd-run", "vim", "vi", "ed", "ex", "emacs", "nano", "curl", "wget", "git",
	"go", "cd"}

// arity is how many words name what a program does. Other programs have one.
var arity = map[string]int{"git": 2, "go": 2, "npm": 2, "yarn": 2, "pnpm": 2, "cargo": 2, "pip": 2, "pip3": 2, "uv": 2,
	"poetry": 2, "bundle": 2, "mvn": 2, "gradle": 2, "dotnet": 2, "swift": 2, "mix": 2, "rails": 2, "terraform": 2,
	"helm": 2, "gh": 2, "brew": 2, "apt": 2, "systemctl": 2, "python": 3, "python3": 3, "npm run": 3, "yarn run": 3,
	"pnpm run": 3, "uv run": 3, "poetry run": 3, "bundle exec": 3, "go tool": 3, "git stash": 3, "git remote": 3,
	"gh pr": 3, "gh issue": 3, "cargo run": 2, "go run": 3}

// reaching are options with which a program starts another one, reads another configuration or writes outside of what
// its call names, by program. "" are those of all programs.
var reaching = map[string][]string{
	"go": {"-exec", "-toolexec", "-vettool", "-overlay", "-modfile", "-C", "-w", "-o", "-ldflags", "-gcflags", "-asmflags",
		"-gccgoflags"},
	"git": {"-c", "-C", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--upload-pack", "--receive-pack",
		"--ext-diff", "--textconv", "--output", "-O", "--open-files-in-pager", "--exec", "-x", "--template", "--extcmd",
		"--config", "--upload-archive", "--no-index"},
	"npm":   {"--script-shell", "--prefix", "-C", "--node-options", "--userconfig", "--globalconfig", "--global", "-g"},
	"cargo": {"--config", "-Z", "-C"}, "rg": {"--pre", "--hostname-bin"}, "grep": {},
	"make": {"-f", "--file", "--makefile", "-C", "-I", "--eval"},
	"tar": {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "--rsh-command", "--rmt-command", "-F",
		"--info-script"},
	"sort": {"--compress-program", "-o", "--output", "-T"}, "sed": {"-i", "--in-place", "-f", "--file"},
	"rsync": {"-e", "--rsh", "--rsync-path"}, "cp": {"-t", "--target-directory"},
	"pip": {"--target", "--prefix", "--root", "--python"}, "man": {"-P", "--pager", "-H"}, "less": {},
	"date": {"-s", "--set"}, "tsc": {"-p"}, "eslint": {"-c", "--config", "--resolve-plugins-relative-to", "--rulesdir"},
	"pytest": {"-c", "-p", "--rootdir", "--confcutdir"}, "gcc": {"-wrapper", "-B", "-fplugin"},
	"cc": {"-wrapper", "-B", "-fplugin"},
}

// assigns matches a word that sets a variable of a program: make SHELL=/bin/x.
var assigns = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*[:+?]?=`)

// reaches reports whether one of the words from the index on makes the program do more than its other words say.
func (c call) reaches(from int) bool {
	name := c.words[0].text
	options := reaching[name]
	for _, w := range c.words[min(from, len(c.words)):] {
		if name == "make" && assigns.MatchString(w.text) {
			return true
		}
		if name == "find" && strings.HasPrefix(w.text, "-") && (strings.HasPrefix(w.text, "-exec") ||
			strings.HasPrefix(w.text, "-ok") || strings.HasPrefix(w.text, "-fprint") || strings.HasPrefix(w.text, "-fls") ||
			w.text == "-delete") {
			return true
		}
		for _, o := range options {
			if isOption(w.text, o, slices.Contains(longOptions, name)) {
				return true
			}
		}
	}
	return slices.Contains([]string{"env", "xargs", "sudo", "eval"}, name)
}

// longOptions are programs whose options with one dash have several letters.
var longOptions = []string{"go", "gcc", "cc"}

// isOption reports whether a word is an option, also with one dash more or less, with a value, shortened, or among
// other letters. long means that the program has no options of one letter that can be joined.
func isOption(text, option string, long bool) bool {
	if !strings.HasPrefix(text, "-") || text == "-" || text == "--" {
		return false
	}
	if len(option) == 2 && !long { // -c: also -cvalue and -qc
		return !strings.HasPrefix(text, "--") && strings.Contains(text[1:], option[1:]) || text == "-"+option
	}
	name, _, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
	whole := strings.TrimLeft(option, "-")
	// Programs accept the beginning of a long option: --upload-p for --upload-pack.
	return name == whole || strings.HasPrefix(option, "--") && strings.HasPrefix(text, "--") && len(name) >= 2 &&
		strings.HasPrefix(whole, name)
}

// plainWord matches a word of a prefix.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.@/+][A-Za-z0-9_.:@/+-]*$`)

// prefix returns the beginning of a call that a user may allow for later calls, or "".
func (c call) prefix() string {
	c = c.stripped()
	n := 1
	for length := 1; length <= 2 && length <= len(c.words); length++ {
		n = max(n, arity[join(c.words[:length])])
	}
	name := c.words[0].text
	switch {
	case c.reaches(1), !plainWord.MatchString(name):
		return ""
	case n == 1 && slices.Contains(unbounded, name):
		return ""
	case strings.HasPrefix(name, "python"):
		if len(c.words) < 3 || c.words[1].text != "-m" {
			return ""
		}
		if c.words[2].text == "pdb" || c.words[2].text == "timeit" {
			return ""
		}
		return join(c.words[:3])
	case n > len(c.words):
		return ""
	}
	for _, w := range c.words[1:n] {
		if !plainWord.MatchString(w.text) {
			return ""
		}
	}
	return join(c.words[:n])
}

// join returns words with spaces between them.
func join(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}
