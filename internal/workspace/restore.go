package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/internal/beneath"
)

// restorer gives files of a tree the content of a commit.
type restorer struct {
	store *Store
	root  *os.File
	trash string // a directory of the host, into which what is in the way is moved
	moved int
	dir   *os.File // the last directory, of the path dirName
	name  string
}

// restore gives the files at these paths of a tree the content that they have in the index, whose commit has their
// blobs. A file that the index lacks is deleted. Everything else, such as ignored files, stays.
func (s *Store) restore(ctx context.Context, root *os.File, x *index, paths []string) (err error) {
	trash, err := os.MkdirTemp(s.scratch(), "trash-")
	if err != nil {
		return err
	}
	r := &restorer{store: s, root: root, trash: trash}
	defer func() { err = errors.Join(err, r.close(), os.RemoveAll(trash)) }()
	slices.Sort(paths)
	var write []string
	for _, name := range paths {
		if _, ok := x.files[name]; ok {
			write = append(write, name)
		} else if err := r.remove(name); err != nil {
			return err
		}
	}
	return s.blobs(ctx, x, write, func(name string, content io.Reader) error {
		f := x.files[name]
		e, err := r.write(name, f.mode, content)
		f.seen = stamp(e)
		x.files[name] = f
		return err
	})
}

// blobs calls f with the content of the index's files at these paths. A submodule has none.
func (s *Store) blobs(ctx context.Context, x *index, paths []string, f func(name string, content io.Reader) error) error {
	var in strings.Builder
	for _, name := range paths {
		if e := x.files[name]; e.mode != modeRepo {
			in.WriteString(e.object + "\n")
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, send := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, s.dir, strings.NewReader(in.String()), send, "--git-dir="+s.store(), "cat-file", "--batch")
		ended <- err
		_ = send.CloseWithError(errors.Join(err, io.EOF))
	}()
	err := eachBlob(bufio.NewReader(out), x, paths, f)
	_ = out.CloseWithError(errEnded)
	if err != nil {
		cancel()
		<-ended
		return err
	}
	return <-ended
}

func eachBlob(out *bufio.Reader, x *index, paths []string, f func(name string, content io.Reader) error) error {
	for _, name := range paths {
		if x.files[name].mode == modeRepo {
			if err := f(name, strings.NewReader("")); err != nil {
				return err
			}
			continue
		}
		header, err := out.ReadString('\n') // ID, type and size
		if err != nil {
			return fmt.Errorf("reading %s from the repository: %w", name, err)
		}
		fields := strings.Fields(header)
		if len(fields) != 3 || fields[1] != "blob" {
			return fmt.Errorf("the repository lacks the content of %s (%s): it may be a partial clone; fetch all objects first",
				name, strings.TrimSpace(header))
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return err
		}
		content := io.LimitReader(out, size)
		if err := f(name, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		if _, err := out.Discard(1); err != nil { // the line break after the content
			return err
		}
	}
	return nil
}

func (r *restorer) close() error {
	if r.dir == nil {
		return nil
	}
	return r.dir.Close()
}

// enter returns the directory at a path, which it makes. What is in the way, such as a symbolic link, is moved away.
func (r *restorer) enter(name string, creating bool) (*os.File, error) {
	if r.dir != nil && r.name == name {
		return r.dir, nil
	}
	d, err := beneath.OpenDir(r.root, ".")
	for _, part := range parts(name) {
		if err != nil {
			return nil, err
		}
		below, berr := beneath.OpenDir(d, part)
		if berr != nil && creating {
			if berr = r.away(d, part); berr == nil {
				berr = unix.Mkdirat(int(d.Fd()), part, 0o755)
			}
			if berr == nil {
				below, berr = beneath.OpenDir(d, part)
			}
		}
		_ = d.Close() // it was only read
		d, err = below, berr
	}
	if err != nil {
		return nil, err
	}
	err = r.close()
	r.dir, r.name = d, name
	return d, err
}

// away moves an entry of a directory into the trash. It does nothing if there is no such entry.
func (r *restorer) away(d *os.File, base string) error {
	if e, err := beneath.Lstat(d, base); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err == nil && !e.Mode.IsDir() {
		return unix.Unlinkat(int(d.Fd()), base, 0)
	}
	r.moved++
	return unix.Renameat(int(d.Fd()), base, unix.AT_FDCWD, filepath.Join(r.trash, strconv.Itoa(r.moved)))
}

// remove deletes a file, and the directories above it that are then empty.
func (r *restorer) remove(name string) error {
	d, err := r.enter(path.Dir(name), false)
	if err != nil { // its directory does not exist
		return nil //nolint:nilerr // as above
	}
	if e, err := beneath.Lstat(d, path.Base(name)); err != nil || e.Mode.IsDir() {
		return nil //nolint:nilerr // deleted meanwhile, or a directory has taken its place
	}
	if err := r.away(d, path.Base(name)); err != nil {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		above, err := r.enter(path.Dir(dir), false)
		if err != nil || unix.Unlinkat(int(above.Fd()), path.Base(dir), unix.AT_REMOVEDIR) != nil {
			return err // it is not empty
		}
	}
	return nil
}

// write makes a file and returns its state.
func (r *restorer) write(name, mode string, content io.Reader) (beneath.Entry, error) {
	d, err := r.enter(path.Dir(name), true)
	if err != nil {
		return beneath.Entry{}, err
	}
	base := path.Base(name)
	if e, err := beneath.Lstat(d, base); mode == modeRepo && err == nil && e.Mode.IsDir() {
		return e, nil
	}
	if err := r.away(d, base); err != nil {
		return beneath.Entry{}, err
	}
	switch mode {
	case modeRepo:
		err = unix.Mkdirat(int(d.Fd()), base, 0o755)
	case modeLink:
		var target []byte
		if target, err = io.ReadAll(io.LimitReader(content, maxPath*4)); err == nil {
			err = unix.Symlinkat(string(target), int(d.Fd()), base)
		}
	default:
		err = writeFile(d, base, mode, content)
	}
	if err != nil {
		return beneath.Entry{}, fmt.Errorf("%s: %w", name, err)
	}
	return beneath.Lstat(d, base)
}

func writeFile(d *os.File, base, mode string, content io.Reader) error {
	perm := fs.FileMode(0o644)
	if mode == modeProgram {
		perm = 0o755
	}
	f, err := beneath.Open(d, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// checkout makes the files of a tree that has none, and returns its index.
func (s *Store) checkout(ctx context.Context, root *os.File, commit string) (*index, error) {
	files, err := s.list(ctx, commit)
	if err != nil {
		return nil, err
	}
	x := newIndex(commit, files)
	return x, s.restore(ctx, root, x, slices.Collect(maps.Keys(x.files)))
}

// isFilePath reports whether a path of a commit may become a file of a tree. Another file of a commit stays in the
// commits that follow, and the tree lacks it.
func isFilePath(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if !isOrdinary(part) {
			return false
		}
	}
	return len(name) <= 4*maxPath
}
