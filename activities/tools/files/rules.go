package files

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// Options define which files of a workspace the tools refuse.
type Options struct {
	// Deny are patterns (path.Match) of files that may hold credentials. They ignore letter case. A pattern matches the
	// end of a path: "*.pem", ".docker/config.json". A pattern that ends in a slash matches a directory and everything
	// below it. A leading exclamation mark makes an exception; the last pattern that matches decides.
	Deny []string
	// HardLinks permits reading files that have more than one hard link. The other link may be outside of the workspace.
	HardLinks bool
	// Write adds the tools that change files.
	Write bool
	// Instructions permits changing files with which a model could change its own instructions or permissions: no agent
	// reads them in this workspace.
	Instructions bool
	// Before is how long a call that changes files may take before it acts.
	Before time.Duration
	// Protected are the files and directories that Everturn itself uses, such as its configuration and its journal.
	Protected []Protected
	Timeout   time.Duration // of a call; 0: the default
}

// denied reports whether a path in the workspace matches the patterns of Options.Deny.
func (o Options) denied(name string) bool {
	parts := strings.Split(strings.ToLower(name), "/")
	denied := false
	for _, p := range o.Deny {
		p, exception := strings.CutPrefix(strings.ToLower(p), "!")
		if denied == exception && matchesPath(p, parts) { // a match would change the result
			denied = !exception
		}
	}
	return denied
}

// matchesPath reports whether a pattern matches the end of a path, which is given by its parts. A pattern that ends in
// a slash may also match a directory above, that is, the end of any beginning of the path.
func matchesPath(pattern string, parts []string) bool {
	pattern, isDir := strings.CutSuffix(pattern, "/")
	n := strings.Count(pattern, "/") + 1 // number of the pattern's parts
	for end := len(parts); end >= n; end-- {
		// The only error is that of a malformed pattern, and the configuration has checked the patterns.
		if ok, _ := path.Match(pattern, strings.Join(parts[end-n:end], "/")); ok {
			return true
		}
		if !isDir {
			break
		}
	}
	return false
}

// hidden are directories that no tool enters, at any level: a repository's own data, with hooks and credentials, and
// the journal.
var hidden = []string{".git", ".everturn"}

// Hidden reports whether the rules keep the tools from reading the file or directory at this path in the workspace.
func (o Options) Hidden(name string) bool { return isHidden(name) || o.denied(name) }

// isHidden reports whether one of the directories of hidden is a part of the path.
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

// The errors about files that the rules refuse. A search counts such files, except for hidden ones.
var (
	errHidden = errors.New(".git and .everturn are out of the file tools' reach")
	errDenied = errors.New("it looks like a file of credentials, which the file tools do not read; the operator can " +
		"allow it ([local_files] deny in agent.toml)")
	errHardLink = errors.New("it has several hard links, and the others may be outside of the workspace; the operator " +
		"can allow such files ([local_files] hard_links in agent.toml)")
	errProtected = errors.New("it is out of the file tools' reach")
)

// check returns an error if the rules refuse a path in the workspace because of the names in it.
func (o Options) check(name string) error {
	if isHidden(name) {
		return errHidden
	}
	if o.denied(name) {
		return errDenied
	}
	return nil
}

// checkLinks returns an error if the file has another hard link, unless HardLinks is set.
func (o Options) checkLinks(info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !o.HardLinks {
		return errHardLink
	}
	return nil
}
