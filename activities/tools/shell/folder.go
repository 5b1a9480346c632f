package shell

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/internal/sandbox"
)

// Folder is a workspace that the user works in, too.
type Folder struct {
	Workspace string
	// Write are the directories below the workspace that commands may write.
	Write []string
	// Hidden reports whether an entry of the workspace must not be read.
	Hidden func(name string) bool
	// Protected are files that commands must not write. Those with Unread set they must not read either.
	Protected []files.Protected
	Cache     string // see sandbox.Place
	// Git makes the repository of the workspace readable, without credentials. LevelLandlock cannot do that.
	Git bool
}

// Where describes the folder for the model.
func (f Folder) Where() string {
	return "the workspace; it can write only to " + list(f.Write) + " and $TMPDIR"
}

// Check returns an error if commands must not write one of the directories in f.Write: it must exist, be below the
// workspace, and contain none of f.Protected, and neither it nor a directory above it in the workspace may be hidden.
func (f Folder) Check() error {
	for _, dir := range f.Write {
		clean := filepath.Clean(dir)
		absolute := filepath.Join(f.Workspace, clean)
		if !filepath.IsLocal(dir) || clean == "." {
			return fmt.Errorf("shell.write: %q must be a directory below the workspace", dir)
		}
		for above := clean; above != "."; above = filepath.Dir(above) {
			if f.Hidden(above) {
				return fmt.Errorf("shell.write: %q is out of the tools' reach", dir)
			}
		}
		for _, p := range f.Protected {
			if files.Within(absolute, p.Path) != "" {
				return fmt.Errorf("shell.write: commands in %q could change %s, which is %s: move one of them", dir, p.Path, p.Use)
			}
		}
		info, err := os.Lstat(absolute)
		if err != nil || !info.IsDir() {
			return fmt.Errorf("shell.write: there is no directory %q in the workspace: make it first", dir)
		}
	}
	return nil
}

// Place returns the folder as the place of a command. It looks anew for what is hidden, because programs make files.
func (f Folder) Place(context.Context) (sandbox.Place, error) {
	root, err := filepath.EvalSymlinks(f.Workspace)
	if err != nil {
		return sandbox.Place{}, fmt.Errorf("reading the workspace: %w", err)
	}
	p := sandbox.Place{Root: root, Cache: f.Cache, ForeignGit: f.Git}
	for _, dir := range f.Write {
		absolute, err := filepath.EvalSymlinks(filepath.Join(root, dir))
		if err != nil {
			return p, fmt.Errorf("reading shell.write: %w", err)
		}
		p.Write = append(p.Write, absolute)
	}
	p.Hidden, err = f.hidden(root)
	return p, err
}

// In implements Places.
func (f Folder) In(ctx context.Context, _ string, run func(sandbox.Place) (string, error)) (string, error) {
	p, err := f.Place(ctx)
	if err != nil {
		return "", err
	}
	return run(p)
}

// StartJob implements Places.
func (f Folder) StartJob(ctx context.Context, title string, _ time.Duration,
	run func(sandbox.Place) (string, error)) (string, error) {
	return f.In(ctx, title, run)
}

// JobEnded implements Places.
func (f Folder) JobEnded(context.Context) (string, error) { return "", nil }

// maxEntries bounds the entries of a workspace in which Place looks for hidden ones; 20,000 take some 50 ms.
const maxEntries = 100_000

// hidden returns the entries of the workspace that commands must not read. A file has the same identity under all of
// its names, so that hard links to a protected file are found, too.
func (f Folder) hidden(root string) (out []string, err error) {
	var unread []os.FileInfo
	for _, p := range f.Protected {
		if info, err := os.Stat(p.Path); err == nil && p.Unread {
			unread = append(unread, info)
		}
		if inside := files.Within(root, p.Path); p.Unread && inside != "" {
			out = append(out, filepath.Join(root, filepath.FromSlash(inside)))
		}
	}
	entries := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+string(filepath.Separator))
		entries++
		switch {
		case path == root:
			return err
		case err != nil || entries > maxEntries:
			return skip(d, entries > maxEntries)
		case f.Git && name == ".git":
			return skip(d, false)
		case f.Hidden(name), f.isOne(unread, d):
			out = append(out, path)
			return skip(d, false)
		}
		return nil
	})
	return out, err
}

// skip ends a walk, or leaves out the entry with what is below it.
func skip(d fs.DirEntry, all bool) error {
	switch {
	case all:
		return fs.SkipAll
	case d != nil && d.IsDir():
		return fs.SkipDir
	}
	return nil
}

// isOne reports whether an entry is one of the files.
func (f Folder) isOne(list []os.FileInfo, d fs.DirEntry) bool {
	if len(list) == 0 || d.IsDir() {
		return false
	}
	info, err := d.Info()
	for _, other := range list {
		if err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}
