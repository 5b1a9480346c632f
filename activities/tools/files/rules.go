package files

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Options define which files of a workspace the tools refuse.
type Options struct {
	// Deny are patterns (path.Match) of files that may hold credentials. They ignore letter case. A pattern matches the
	// end of a path: "*.pem", ".docker/config.json". A pattern that ends in a slash matches a directory and everything
	// below it. A leading exclamation mark makes an exception; the last pattern that matches decides.
	Deny []string
	// HardLinks permits reading files that have more than one name. The other name may be outside of the workspace.
	HardLinks bool
	// Write adds the tools that change files.
	Write bool
	// Protected are the files and directories that the configuration names.
	Protected []Protected
}

// denied reports whether a path matches the patterns of credential files.
func (o Options) denied(name string) bool {
	parts := strings.Split(strings.ToLower(name), "/")
	verdict := false
	for _, p := range o.Deny {
		p, except := strings.CutPrefix(strings.ToLower(p), "!")
		if verdict == except && matches(p, parts) {
			verdict = !except
		}
	}
	return verdict
}

func matches(pattern string, parts []string) bool {
	pattern, below := strings.CutSuffix(pattern, "/")
	n := strings.Count(pattern, "/") + 1
	for end := len(parts); end >= n; end-- {
		if ok, _ := path.Match(pattern, strings.Join(parts[end-n:end], "/")); ok { // the patterns have been checked
			return true
		}
		if !below {
			break
		}
	}
	return false
}

// hidden are directories that no tool enters, at any level: a repository's own data, with hooks and credentials, and
// the journal.
var hidden = []string{".git", ".everturn"}

// Hidden reports whether no tool reads an entry of the workspace.
func (o Options) Hidden(name string) bool { return isHidden(name) || o.denied(name) }

func isHidden(name string) bool {
	for _, part := range strings.Split(name, "/") {
		for _, h := range hidden {
			if strings.EqualFold(part, h) {
				return true
			}
		}
	}
	return false
}

// The refusals by the rules. A search counts all but the first.
var (
	errHidden = errors.New(".git and .everturn are out of the file tools' reach")
	errDenied = errors.New("it looks like a file of credentials, which the file tools do not read; the operator can " +
		"allow it ([local_files] deny in agent.toml)")
	errHardLink = errors.New("it has several hard links, and the others may be outside of the workspace; the operator " +
		"can allow such files ([local_files] hard_links in agent.toml)")
	errProtected = errors.New("it is out of the file tools' reach")
)

// check refuses a path by its name.
func (o Options) check(name string) error {
	if isHidden(name) {
		return errHidden
	}
	if o.denied(name) {
		return errDenied
	}
	return nil
}

// checkLinks refuses a file that has another hard link, unless HardLinks is set.
func (o Options) checkLinks(info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !o.HardLinks {
		return errHardLink
	}
	return nil
}
