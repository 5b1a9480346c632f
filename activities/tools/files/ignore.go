package files

import (
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

const (
	maxIgnoreFile     = 64 << 10 // bytes of a .gitignore that are read
	maxIgnorePatterns = 2000     // of one search
)

// ignoreRules are the patterns of the .gitignore files that a search has read so far.
type ignoreRules struct{ patterns []gitignore.Pattern }

// ignoreRules returns the patterns that apply in a directory of the workspace: those of its own .gitignore and of the
// directories above it.
func (c *call) ignoreRules(dir string) (i ignoreRules) {
	current := "."
	i.read(c, current)
	for _, part := range strings.Split(dir, "/") {
		if part != "." {
			current = path.Join(current, part)
			i.read(c, current)
		}
	}
	return i
}

// read adds the patterns of a directory's .gitignore. It adds none if the file cannot be read.
func (i *ignoreRules) read(c *call, dir string) {
	f, _, _, err := c.open(path.Join(dir, ".gitignore"))
	if err != nil {
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return
	}
	var domain []string // the directory in which the patterns apply, by its parts
	if dir != "." {
		domain = strings.Split(dir, "/")
	}
	for _, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || len(i.patterns) == maxIgnorePatterns {
			continue
		}
		i.patterns = append(i.patterns, gitignore.ParsePattern(line, domain))
	}
}

// match reports whether the patterns ignore a path in the workspace. The last pattern that matches decides.
func (i *ignoreRules) match(name string, isDir bool) bool {
	return len(i.patterns) > 0 && gitignore.NewMatcher(i.patterns).Match(strings.Split(name, "/"), isDir)
}
