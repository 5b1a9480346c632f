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

// ignored are the patterns of the .gitignore files that a search has passed.
type ignored struct{ patterns []gitignore.Pattern }

// ignored returns the patterns that apply to a directory: its own, and those of the directories above.
func (c *call) ignored(dir string) (i ignored) {
	at := "."
	i.read(c, at)
	for _, part := range strings.Split(dir, "/") {
		if part != "." {
			at = path.Join(at, part)
			i.read(c, at)
		}
	}
	return i
}

// read adds the patterns of a directory. A .gitignore that cannot be read has none.
func (i *ignored) read(c *call, dir string) {
	f, _, _, err := c.open(path.Join(dir, ".gitignore"))
	if err != nil {
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return
	}
	var domain []string
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

// match reports whether the last pattern that matches a path ignores it.
func (i *ignored) match(name string, isDir bool) bool {
	return len(i.patterns) > 0 && gitignore.NewMatcher(i.patterns).Match(strings.Split(name, "/"), isDir)
}
