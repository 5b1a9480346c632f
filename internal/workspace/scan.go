package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/internal/beneath"
)

// Bounds of a tree. What exceeds them is not committed.
const (
	maxFile     = 64 << 20  // bytes
	maxFiles    = 500_000   // entries of a tree that a scan looks at
	maxDepth    = 100       // directories below each other
	maxChanges  = 50_000    // files of a commit
	maxChanged  = 512 << 20 // bytes of a commit
	maxIgnore   = 64 << 10  // bytes of a .gitignore
	maxPatterns = 2000      // of all .gitignore files
)

// change is a file of a tree that differs from the commit.
type change struct {
	path    string
	removed bool
}

// Skipped is a file that differs from the commit and is not committed.
type Skipped struct{ Path, Why string }

// scan compares a tree with a commit.
type scan struct {
	index   *index
	hash    func(content []byte) string
	seen    map[string]bool // files of the index that exist, or about which the scan does not know
	entries int
	ignore  []gitignore.Pattern
	changes []change
	skipped []Skipped
	left    []string // some of what .gitignore names
}

// scan returns the files of a tree that differ from the index's commit, and notes in the index which do not.
func (s *Store) scan(ctx context.Context, root *os.File, x *index) (*scan, error) {
	c := &scan{index: x, hash: s.blobID, seen: make(map[string]bool, len(x.files))}
	if b, err := os.ReadFile(filepath.Join(s.gitDir, "info", "exclude")); err == nil {
		c.addPatterns(b[:min(len(b), maxIgnore)], nil)
	}
	top, err := beneath.OpenDir(root, ".") // whose entries were not read before
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if err := c.dir(ctx, top, ".", 0); err != nil {
		return nil, err
	}
	for name := range x.files {
		if !c.seen[name] {
			c.changes = append(c.changes, change{name, true})
		}
	}
	slices.SortFunc(c.changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	slices.SortFunc(c.skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// errTooMany ends the scan of a tree with too many entries.
var errTooMany = fmt.Errorf("the tree has more than %d files and directories that git would commit: name directories "+
	"of build outputs in .gitignore", maxFiles)

// dir scans an open directory. name is its path in the tree.
func (c *scan) dir(ctx context.Context, d *os.File, name string, depth int) error {
	entries, err := d.ReadDir(-1)
	if err != nil {
		c.keepBelow(name, err.Error())
		return nil
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" }) {
		if b, _, err := readBeneath(d, ".gitignore", maxIgnore); err == nil {
			c.addPatterns(b, parts(name))
		}
	}
	for _, e := range entries {
		if c.entries++; c.entries > maxFiles {
			return errTooMany
		}
		if c.entries%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !isOrdinary(e.Name()) {
			continue
		}
		if e.IsDir() {
			err = c.subdir(ctx, d, path.Join(name, e.Name()), e.Name(), depth+1)
		} else {
			c.file(d, path.Join(name, e.Name()), e.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// subdir scans the directory base of d, unless it is a submodule, which stays empty, or ignored.
func (c *scan) subdir(ctx context.Context, d *os.File, name, base string, depth int) error {
	if f, ok := c.index.files[name]; ok && f.mode == modeRepo {
		c.seen[name] = true
		return nil
	}
	tracked := c.index.dirs[name]
	if !tracked && c.ignored(name, true) {
		c.leave(name + "/")
		return nil
	}
	if depth > maxDepth || len(name) > maxPath {
		c.keepBelow(name, "its path is too long")
		return nil
	}
	below, err := beneath.OpenDir(d, base)
	if err != nil {
		c.keepBelow(name, plain(err))
		return nil
	}
	defer below.Close()
	return c.dir(ctx, below, name, depth)
}

// keepBelow reports a directory that cannot be scanned. Its files stay in the commit as they are.
func (c *scan) keepBelow(name, why string) {
	c.skipped = append(c.skipped, Skipped{name, why})
	for file := range c.index.files {
		if name == "." || strings.HasPrefix(file, name+"/") {
			c.seen[file] = true
		}
	}
}

// file compares the file base of d with the index.
func (c *scan) file(d *os.File, name, base string) {
	old, tracked := c.index.files[name]
	if ignored := !tracked && c.ignored(name, false); ignored || old.mode == modeRepo {
		c.seen[name] = true
		if ignored {
			c.leave(name)
		}
		return
	}
	e, err := beneath.Lstat(d, base)
	if errors.Is(err, fs.ErrNotExist) { // it was deleted meanwhile
		return
	}
	c.seen[name] = true
	if err == nil && (tracked && old.same(e) || !tracked && e.Mode&fs.ModeIrregular != 0) { // or a socket or a FIFO
		return
	}
	mode, content, e, err := readFile(d, base, e)
	if err != nil {
		c.skipped = append(c.skipped, Skipped{name, plain(err)})
		return
	}
	if tracked && old.entry == (entry{mode, c.hash(content)}) {
		old.seen = stamp(e)
		c.index.files[name] = old
		return
	}
	c.changes = append(c.changes, change{path: name})
}

// maxLeft bounds how many ignored files and directories a scan remembers.
const maxLeft = 50

// leave remembers that a file or directory is ignored.
func (c *scan) leave(name string) {
	if len(c.left) < maxLeft {
		c.left = append(c.left, name)
	}
}

// ignored reports whether a .gitignore excludes a path. The files of the commit are never ignored.
func (c *scan) ignored(name string, isDir bool) bool {
	return len(c.ignore) > 0 && gitignore.NewMatcher(c.ignore).Match(strings.Split(name, "/"), isDir)
}

// addPatterns adds the patterns of a .gitignore in the directory with these parts.
func (c *scan) addPatterns(b []byte, domain []string) {
	for line := range bytes.Lines(b) {
		text := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "#") && len(c.ignore) < maxPatterns {
			c.ignore = append(c.ignore, gitignore.ParsePattern(text, domain))
		}
	}
}

// parts returns the parts of a path of a directory; the root has none.
func parts(name string) []string {
	if name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// plain returns what is wrong with a file, without a path of this machine.
func plain(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// readFile returns the mode of a file, as git has it, and its content, which for a symbolic link is the target. e is
// the file's state; the result is the state of what was read.
func readFile(d *os.File, base string, e beneath.Entry) (mode string, content []byte, now beneath.Entry, err error) {
	if e.Mode&fs.ModeSymlink != 0 {
		target, err := beneath.ReadLink(d, base)
		return modeLink, []byte(target), e, err
	}
	content, now, err = readBeneath(d, base, maxFile)
	if now.Mode&0o100 != 0 {
		return modeProgram, content, now, err
	}
	return modeFile, content, now, err
}

// readBeneath returns the content of a regular file of an open directory, and its state. O_NONBLOCK keeps a FIFO from
// blocking the caller.
func readBeneath(d *os.File, base string, most int64) ([]byte, beneath.Entry, error) {
	f, err := beneath.Open(d, base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, beneath.Entry{}, err
	}
	defer f.Close()
	e, err := beneath.Stat(f)
	switch {
	case err != nil:
		return nil, e, err
	case !e.Mode.IsRegular():
		return nil, e, errors.New("it is not a regular file")
	case e.Links > 1:
		return nil, e, errors.New("it has several hard links, and the others may be outside of the tree")
	case e.Size > most:
		return nil, e, fmt.Errorf("it has %d bytes; the maximum is %d", e.Size, most)
	}
	b := make([]byte, e.Size)
	n, err := io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // another process has truncated it; its time says so
	}
	return b[:n], e, err
}
