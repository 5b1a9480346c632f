package files

import (
	"errors"
	"fmt"
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

// errDenied and errHardLink are refusals that a search counts.
var (
	errDenied = errors.New("it looks like a file of credentials, which the file tools do not read; the operator can " +
		"allow it ([local_files] deny in agent.toml)")
	errHardLink = errors.New("it has several hard links, and the others may be outside of the workspace; the operator " +
		"can allow such files ([local_files] hard_links in agent.toml)")
)

// check refuses a path by its name. Its arguments are the path from the model and the path without symbolic links.
func (o Options) check(names ...string) error {
	for _, name := range names {
		if isHidden(name) {
			return fmt.Errorf("%s: .git and .everturn are out of the file tools' reach", names[0])
		}
		if o.denied(name) {
			return fmt.Errorf("%s: %w", names[0], errDenied)
		}
	}
	return nil
}

// checkLinks refuses a file that has another hard link, unless HardLinks is set.
func (o Options) checkLinks(name string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !o.HardLinks {
		return fmt.Errorf("%s: %w", name, errHardLink)
	}
	return nil
}

// maxLinks bounds the symbolic links of a path, as Linux does.
const maxLinks = 40

// reach resolves the symbolic links of a path that clean has returned, checks the rules and returns the path without
// links.
func (w *workspace) reach(name string) (string, error) {
	if err := w.check(name); err != nil {
		return "", err
	}
	real, err := w.resolve(name)
	if err != nil {
		return "", explain(name, err)
	}
	return real, w.check(name, real)
}

func (w *workspace) resolve(name string) (string, error) {
	real, links := ".", 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && real == ".":
			return "", errors.New("the path leads out of the workspace")
		case part == "..":
			real = path.Dir(real)
			continue
		}
		next := path.Join(real, part)
		info, err := w.root.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		target, err := w.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks || path.IsAbs(target) {
			return "", errors.New("the path leads out of the workspace, or has too many links")
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, nil
}
