package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// access is what a tool does at the place that it looks for.
type access int

const (
	reading  access = iota // links are followed within the workspace
	changing               // a link as the last part is refused
	creating               // as changing, and missing directories are made
)

// place is an entry of an open directory. There may be no such entry.
type place struct {
	call *call
	how  access
	name string   // as the model gave it
	dir  *os.File // opened part by part from the workspace, without following a link
	base string   // in dir; "." means dir itself
	path string   // from the workspace, without links
}

// Close closes the directory.
func (p place) Close() error { return p.dir.Close() }

// trail is the way to a place: the directories that were opened, each from the one before. A symbolic link is never
// opened: its target takes its place in the trail, and cannot lead out of the workspace. Every rule is applied to the
// names and the directories of the trail, so what another process swaps meanwhile changes nothing: the tool acts in
// the directory that was checked.
type trail struct {
	call  *call
	how   access
	dirs  []*os.File // the first is the workspace
	names []string   // of dirs, without the workspace
	rest  []string   // to go
	links int        // that were followed
}

// find opens the directory of a path from the model. The caller closes the place.
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

// walk opens the directories of the trail and returns the name of its last part.
func (t *trail) walk() (base string, err error) {
	root, err := openDir(t.call.root, ".")
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
		target, err := readLink(t.dir(), part)
		switch {
		case err == nil && len(t.rest) == 0 && t.how != reading:
			return "", errors.New("it is a symbolic link: name the file that it leads to")
		case err == nil:
			err = t.follow(target)
		case len(t.rest) == 0:
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

// path returns the path of an entry of the current directory.
func (t *trail) path(base string) string { return path.Join(path.Join(t.names...), base) }

var errOutside = errors.New("the path leads out of the workspace, or has too many links")

// up leaves the current directory.
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

// follow replaces a link by its target.
func (t *trail) follow(target string) error {
	if t.links++; t.links > maxLinks || path.IsAbs(target) {
		return errOutside
	}
	t.rest = append(parts(target), t.rest...)
	return nil
}

// make makes a directory and enters it, after the rules were applied to all that will be made.
func (t *trail) make(part string) error {
	if slices.Contains(t.rest, "..") {
		return fs.ErrNotExist
	}
	whole := t.path(path.Join(append([]string{part}, t.rest...)...))
	if err := t.call.check(whole); err != nil {
		return err
	}
	if err := t.call.guard(whole, identity{}, t.how); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(t.dir().Fd()), part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.enter(part)
}

// enter opens a directory of the current one, if no rule forbids it.
func (t *trail) enter(part string) error {
	f, err := openDir(t.dir(), part)
	if err != nil {
		return err
	}
	if err := t.call.admit(t.dir(), f, t.path(part), t.how); err != nil {
		return errors.Join(err, f.Close())
	}
	t.dirs, t.names = append(t.dirs, f), append(t.names, part)
	return nil
}

// open opens the regular file of the place. O_NONBLOCK keeps a FIFO from blocking the call.
func (p place) open() (*os.File, fs.FileInfo, error) {
	f, err := openFile(p.dir, p.base, unix.O_RDONLY|unix.O_NONBLOCK, 0)
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

// openDir opens the place as a directory.
func (p place) openDir() (*os.File, error) {
	f, err := openDir(p.dir, p.base)
	if err != nil {
		return nil, explain(p.name, err)
	}
	if err := p.call.admit(p.dir, f, p.path, p.how); err != nil {
		return nil, explain(p.name, errors.Join(err, f.Close()))
	}
	return f, nil
}

// identity tells a file from all others of the machine.
type identity struct{ device, inode uint64 }

func identityOf(info fs.FileInfo) identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
}

// entry is an entry of a directory.
type entry struct {
	name string
	mode fs.FileMode // the type only
	size int64
	id   identity
}

// look describes an entry of a directory, without following a link.
func look(dir *os.File, name string) (entry, error) {
	var st unix.Stat_t
	if err := retry(func() error {
		return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}); err != nil {
		return entry{}, err
	}
	mode := fs.ModeIrregular
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		mode = 0
	case unix.S_IFDIR:
		mode = fs.ModeDir
	case unix.S_IFLNK:
		mode = fs.ModeSymlink
	}
	return entry{name, mode, st.Size, identity{uint64(st.Dev), st.Ino}}, nil //nolint:unconvert // as above
}

// maxLinkBytes bounds the target of a link, as Linux does.
const maxLinkBytes = 4096

// readLink returns the target of a symbolic link in a directory. The error is fs.ErrNotExist if there is no such entry,
// and another one if the entry is no link.
func readLink(dir *os.File, name string) (string, error) {
	b := make([]byte, maxLinkBytes)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(int(dir.Fd()), name, b)
		return err
	})
	return string(b[:max(n, 0)]), err
}

func openDir(dir *os.File, name string) (*os.File, error) {
	return openFile(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

func openFile(dir *os.File, name string, flags int, mode fs.FileMode) (*os.File, error) {
	fd := 0
	err := retry(func() (err error) {
		fd, err = openAt(int(dir.Fd()), name, flags, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openOnDevice opens an entry of a directory. It follows no link, and enters no directory of another file system.
func openOnDevice(dir int, name string, flags int, mode uint32) (int, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return fd, err
	}
	var above, opened unix.Stat_t
	if err = errors.Join(unix.Fstat(dir, &above), unix.Fstat(fd, &opened)); err == nil &&
		opened.Mode&unix.S_IFMT == unix.S_IFDIR && opened.Dev != above.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// retry repeats a system call that a signal has interrupted, as package os does.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
