package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/beneath"
	"golang.org/x/sys/unix"
)

// access is what a tool is going to do with the file or directory that it finds.
type access int

const (
	reading  access = iota // symbolic links are followed within the workspace
	changing               // a symbolic link as the last part of the path is refused
	creating               // like changing, and missing directories are created
)

// place is where a path from the model leads: an entry of an open directory. The entry need not exist.
type place struct {
	call *call
	how  access
	name string   // the model's path, as clean returns it
	dir  *os.File // opened part by part from the workspace, without following a symbolic link
	base string   // the entry's name in dir; "." means dir itself
	path string   // path in the workspace, without symbolic links
}

// Close closes the directory.
func (p place) Close() error { return p.dir.Close() }

// trail is the search for a place, part by part of a path. It opens each directory from the one before. It does not
// open a symbolic link but replaces it by its target, which must not lead out of the workspace. The rules are applied
// to the names and the open directories of the trail, and the tool acts in the directory that was checked. So another
// process that swaps directories or links meanwhile gains nothing.
type trail struct {
	call  *call
	how   access
	dirs  []*os.File // the directories that were opened; the first is the workspace
	names []string   // of dirs, without the workspace
	rest  []string   // the parts of the path that are still to be opened
	links int        // number of symbolic links that were followed
}

// find returns the place to which a path from the model leads, and opens its directory. It returns an error if the
// rules refuse the path. The caller closes the place.
func (c *call) find(name string, how access) (place, error) {
	name, err := clean(name)
	if err != nil {
		return place{}, err
	}
	if name == "." && how != reading {
		return place{}, errors.New("path is empty: name a file")
	}
	if err := c.check(name); err != nil {
		return place{}, explain(name, err)
	}
	t := &trail{call: c, how: how, rest: parts(name)}
	base, err := t.walk()
	if err != nil {
		for _, d := range t.dirs {
			_ = d.Close() // it was only read
		}
		return place{}, explain(name, err)
	}
	last := len(t.dirs) - 1
	for _, d := range t.dirs[:last] {
		_ = d.Close()
	}
	return place{call: c, how: how, name: name, dir: t.dirs[last], base: base, path: t.path(base)}, nil
}

// parts returns the parts of a path that are neither empty nor ".".
func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(p string) bool { return p == "" || p == "." })
}

// walk opens the directories of the path, and returns the name of its last part, which it does not open. The name is
// "." if the path ends with the directory that was opened last.
func (t *trail) walk() (base string, err error) {
	root, err := beneath.OpenDir(t.call.root, ".")
	if err != nil {
		return "", err
	}
	t.dirs = append(t.dirs, root)
	for len(t.rest) > 0 {
		part := t.rest[0]
		t.rest = t.rest[1:]
		if part == ".." {
			if err := t.up(); err != nil {
				return "", err
			}
			continue
		}
		target, err := beneath.ReadLink(t.dir(), part)
		switch {
		case err == nil && len(t.rest) == 0 && t.how != reading:
			return "", errors.New("it is a symbolic link: name the file that it leads to")
		case err == nil: // a symbolic link
			err = t.follow(target)
		case len(t.rest) == 0: // the last part
			return part, t.call.check(t.path(part))
		case errors.Is(err, fs.ErrNotExist) && t.how == creating:
			err = t.make(part)
		default:
			err = t.enter(part)
		}
		if err != nil {
			return "", err
		}
	}
	return ".", t.call.check(t.path("."))
}

func (t *trail) dir() *os.File { return t.dirs[len(t.dirs)-1] }

// path returns the path in the workspace of an entry of the directory that was opened last.
func (t *trail) path(base string) string { return path.Join(path.Join(t.names...), base) }

var errOutside = errors.New("the path leads out of the workspace, or has too many links")

// up goes back to the parent directory for a part "..". It returns an error at the workspace itself.
func (t *trail) up() error {
	last := len(t.dirs) - 1
	if last == 0 {
		return errOutside
	}
	err := t.dirs[last].Close()
	t.dirs, t.names = t.dirs[:last], t.names[:last-1]
	return err
}

// maxLinks bounds the symbolic links of a path, as Linux does.
const maxLinks = 40

// follow puts the parts of a symbolic link's target before the rest of the path. It refuses an absolute target.
func (t *trail) follow(target string) error {
	if t.links++; t.links > maxLinks || path.IsAbs(target) {
		return errOutside
	}
	t.rest = append(parts(target), t.rest...)
	return nil
}

// make creates the directory part and enters it. Before that, it applies the rules to the whole path that would be
// created, so that a refused path leaves no directories behind.
func (t *trail) make(part string) error {
	if slices.Contains(t.rest, "..") { // from a symbolic link; it has no meaning below a directory that does not exist
		return fs.ErrNotExist
	}
	created := t.path(path.Join(append([]string{part}, t.rest...)...))
	if err := t.call.check(created); err != nil {
		return err
	}
	if err := t.call.guard(created, beneath.Identity{}, t.how); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(t.dir().Fd()), part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.enter(part)
}

// enter opens the subdirectory part, unless a rule forbids it, and adds it to the trail.
func (t *trail) enter(part string) error {
	f, err := beneath.OpenDir(t.dir(), part)
	if err != nil {
		return err
	}
	if err := t.call.admit(t.dir(), f, t.path(part), t.how); err != nil {
		return errors.Join(err, f.Close())
	}
	t.dirs, t.names = append(t.dirs, f), append(t.names, part)
	return nil
}

// open opens the regular file at the place, unless a rule forbids it. O_NONBLOCK keeps a FIFO from blocking the call.
func (p place) open() (*os.File, fs.FileInfo, error) {
	f, err := beneath.Open(p.dir, p.base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(p.name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errors.New("it is a directory; list_files shows what is in it")
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	default:
		err = errors.Join(p.call.checkLinks(info), p.call.admit(p.dir, f, p.path, p.how))
	}
	if err != nil {
		return nil, nil, explain(p.name, errors.Join(err, f.Close()))
	}
	return f, info, nil
}

// openDir opens the directory at the place, unless a rule forbids it.
func (p place) openDir() (*os.File, error) {
	f, err := beneath.OpenDir(p.dir, p.base)
	if err != nil {
		return nil, explain(p.name, err)
	}
	if err := p.call.admit(p.dir, f, p.path, p.how); err != nil {
		return nil, explain(p.name, errors.Join(err, f.Close()))
	}
	return f, nil
}
