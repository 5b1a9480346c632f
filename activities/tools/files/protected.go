package files

import (
	"fmt"
	"github.com/everturn/everturn/internal/beneath"
	"os"
	"path/filepath"
	"strings"
)

// Protected is a file that Everturn itself uses, or a directory of such files with everything below it. The file tools
// do not change it.
type Protected struct {
	Path   string // need not exist; relative to the working directory
	Unread bool   // the file tools do not read it either
	Use    string // what Everturn uses it for, for the error that the model gets
}

// instructions are the names, in any directory and in any letter case, of files with which a model could change its own
// instructions or permissions: Everturn's configuration, and what agents read as instructions.
var instructions = []string{"agent.toml", "agents.md", "claude.md", ".agents", ".claude"}

// call is one call of a tool, with the protected files as they were when it began.
type call struct {
	*workspace
	protected []located
}

// located is a protected file with its path in the workspace and its identity.
type located struct {
	Protected
	path string           // from the workspace, without links; empty if it is elsewhere
	id   beneath.Identity // zero if it does not exist
}

// begin begins a call. It locates the protected files anew, because programs replace and create them.
func (w *workspace) begin() *call {
	c := &call{workspace: w}
	for _, p := range w.Protected {
		at := located{Protected: p, path: Within(w.path, p.Path)}
		if info, err := os.Stat(p.Path); err == nil {
			at.id = beneath.IdentityOf(info)
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

// withoutLinks makes a path absolute and resolves its symbolic links. It also resolves links to files that do not
// exist, because a tool could create them.
func withoutLinks(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	// dir is the beginning of the path that may exist, and rest is what follows. Each round resolves dir, or follows one
	// link at its end, or moves its last part to rest.
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
		if dir == filepath.Dir(dir) { // not even the root can be resolved
			return name
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = filepath.Dir(dir)
	}
}

// holds reports whether the file with this path in the workspace and this identity is the protected file, or is below
// it. It ignores letter case, because some file systems do.
func (l located) holds(name string, id beneath.Identity) bool {
	sameFile := id != (beneath.Identity{}) && id == l.id // under whatever name
	if sameFile || l.path == "." {                       // "." means that the whole workspace is protected
		return true
	}
	if l.path == "" {
		return false
	}
	protected, parts := strings.Split(l.path, "/"), strings.Split(name, "/")
	for i, part := range protected {
		if i == len(parts) || !strings.EqualFold(part, parts[i]) {
			return false
		}
	}
	return true
}

// guard returns an error if this kind of access to a file is not permitted, by its path in the workspace and by its
// identity. id is zero if the file does not exist.
func (c *call) guard(name string, id beneath.Identity, how access) error {
	for _, p := range c.protected {
		if (how != reading || p.Unread) && p.holds(name, id) {
			return fmt.Errorf("%w: it is %s", errProtected, p.Use)
		}
	}
	if how == reading || c.Instructions {
		return nil
	}
	for _, part := range strings.Split(name, "/") {
		if foldedIn(instructions, part) {
			return fmt.Errorf("%w: %s instructs or configures agents", errProtected, part)
		}
	}
	return nil
}

// admit returns an error if this kind of access to an open file in dir is not permitted. It compares identities beside
// names, because some file systems find a file under several names.
func (c *call) admit(dir, opened *os.File, name string, how access) error {
	info, err := opened.Stat()
	if err != nil {
		return err
	}
	id := beneath.IdentityOf(info)
	if isHidden(name) || isOneOf(dir, id, hidden) {
		return errHidden
	}
	if how != reading && !c.Instructions && isOneOf(dir, id, instructions) {
		return fmt.Errorf("%w: it instructs or configures agents", errProtected)
	}
	return c.guard(name, id, how)
}

// isOneOf reports whether the file with this identity has one of these names in dir.
func isOneOf(dir *os.File, id beneath.Identity, names []string) bool {
	for _, name := range names {
		if e, err := beneath.Lstat(dir, name); err == nil && e.ID == id {
			return true
		}
	}
	return false
}

// foldedIn reports whether name is one of the names, in any letter case.
func foldedIn(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
