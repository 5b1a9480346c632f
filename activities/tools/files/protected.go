package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Protected is a file that the program itself uses, or a directory of such files with everything below it. The tools do
// not change it.
type Protected struct {
	Path   string // need not exist; relative to the working directory
	Unread bool   // the tools do not read it either
	Use    string // what the program uses it for; a refusal tells it to the model
}

// instructions are files, in any directory, with which a model could change what it is told or permitted: this
// program's configuration, and the instructions that agents read. Their names ignore letter case.
var instructions = []string{"agent.toml", "agents.md", "claude.md", ".agents", ".claude"}

// call is one call of a tool, and the protected files as it found them.
type call struct {
	*workspace
	protected []located
}

// located is a protected file: where it is in the workspace, and which file it is.
type located struct {
	Protected
	path string   // from the workspace, without links; empty if it is elsewhere
	id   identity // zero if it does not exist
}

// begin begins a call. It looks at the protected files again, because programs replace or create them.
func (w *workspace) begin() *call {
	c := &call{workspace: w}
	for _, p := range w.Protected {
		at := located{Protected: p, path: Within(w.path, p.Path)}
		if info, err := os.Stat(p.Path); err == nil {
			at.id = identityOf(info)
		}
		c.protected = append(c.protected, at)
	}
	return c
}

// Within returns the path of a file relative to a directory, with forward slashes and without symbolic links: "." if
// the file is the directory or one above it, and "" if it is elsewhere. Neither need exist.
func Within(dir, file string) string {
	dir, file = withoutLinks(dir), withoutLinks(file)
	if rel, err := filepath.Rel(file, dir); err == nil && filepath.IsLocal(rel) {
		return "."
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// withoutLinks returns an absolute path without symbolic links, as far as it exists. It follows links to files that do
// not exist: a tool could create them.
func withoutLinks(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	rest, links := "", 0
	for dir := name; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if target, err := os.Readlink(dir); err == nil && links < maxLinks {
			links++
			if !filepath.IsAbs(target) {
				target = filepath.Join(withoutLinks(filepath.Dir(dir)), target)
			}
			dir = target
			continue
		}
		if dir == filepath.Dir(dir) {
			return name
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = filepath.Dir(dir)
	}
}

// holds reports whether an entry of the workspace is the protected file, or below it. Letter case is ignored, because
// some file systems ignore it.
func (l located) holds(name string, id identity) bool {
	if id != (identity{}) && id == l.id || l.path == "." {
		return true
	}
	if l.path == "" {
		return false
	}
	above, parts := strings.Split(l.path, "/"), strings.Split(name, "/")
	for i, part := range above {
		if i == len(parts) || !strings.EqualFold(part, parts[i]) {
			return false
		}
	}
	return true
}

// guard refuses an entry that is protected. id is zero if the entry does not exist.
func (c *call) guard(name string, id identity, how access) error {
	for _, p := range c.protected {
		if (how != reading || p.Unread) && p.holds(name, id) {
			return fmt.Errorf("%w: it is %s", errProtected, p.Use)
		}
	}
	if how == reading {
		return nil
	}
	for _, part := range strings.Split(name, "/") {
		if foldedIn(instructions, part) {
			return fmt.Errorf("%w: %s instructs or configures agents", errProtected, part)
		}
	}
	return nil
}

// admit refuses an open entry of a directory by what it is: its name alone does not tell on file systems that know an
// entry by several names.
func (c *call) admit(dir, opened *os.File, name string, how access) error {
	info, err := opened.Stat()
	if err != nil {
		return err
	}
	id := identityOf(info)
	if isHidden(name) || isOneOf(dir, id, hidden) {
		return errHidden
	}
	if how != reading && isOneOf(dir, id, instructions) {
		return fmt.Errorf("%w: it instructs or configures agents", errProtected)
	}
	return c.guard(name, id, how)
}

// isOneOf reports whether an entry of a directory is one of those with these names.
func isOneOf(dir *os.File, id identity, names []string) bool {
	for _, name := range names {
		if e, err := look(dir, name); err == nil && e.id == id {
			return true
		}
	}
	return false
}

func foldedIn(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
