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
	if err := t.call.guard(created, identity{}, t.how); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(t.dir().Fd()), part, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.enter(part)
}

// enter opens the subdirectory part, unless a rule forbids it, and adds it to the trail.
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

// open opens the regular file at the place, unless a rule forbids it. O_NONBLOCK keeps a FIFO from blocking the call.
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

// openDir opens the directory at the place, unless a rule forbids it.
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

// identity identifies a file on this machine, under whatever name it is found. The zero value stands for no file.
type identity struct{ device, inode uint64 }

// identityOf returns the identity of the file that info describes, or zero if the system does not report it.
func identityOf(info fs.FileInfo) identity {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
}

// entry describes an entry of a directory.
type entry struct {
	name string
	mode fs.FileMode // only the type bits
	size int64       // bytes
	id   identity
}

// lstatAt describes an entry of an open directory. It does not follow a symbolic link.
func lstatAt(dir *os.File, name string) (entry, error) {
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

// readLink returns the target of a symbolic link in a directory. The error is fs.ErrNotExist if the entry does not
// exist, and another one if the entry is not a symbolic link.
func readLink(dir *os.File, name string) (string, error) {
	b := make([]byte, maxLinkBytes)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(int(dir.Fd()), name, b)
		return err
	})
	return string(b[:max(n, 0)]), err
}

// openDir opens a subdirectory of an open directory, as openAt does.
func openDir(dir *os.File, name string) (*os.File, error) {
	return openFile(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openFile opens an entry of an open directory, as openAt does. It retries if a signal interrupts the system call.
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

// openOnDevice opens an entry of the directory with the file descriptor dir. It follows no symbolic link, and refuses
// a directory of another file system with EXDEV.
func openOnDevice(dir int, name string, flags int, mode uint32) (int, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return fd, err
	}
	var above, opened unix.Stat_t
	err = errors.Join(unix.Fstat(dir, &above), unix.Fstat(fd, &opened))
	isDir := opened.Mode&unix.S_IFMT == unix.S_IFDIR
	if err == nil && isDir && opened.Dev != above.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// retry repeats a system call while signals interrupt it (EINTR), as package os does.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
