package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/beneath"
)

// maxRaces bounds how often a commit is tried because another process has killed git or locked the branch.
const maxRaces = 500

// commit makes one commit of the changes on the branch of the session, and returns its ID and what it leaves out. It
// returns "" if nothing is left to commit. The index x is that of the head; it may be nil. If the commit is made and
// could not be recorded, commit returns its ID and an error.
func (t *tree) commit(ctx context.Context, a Action, title string, changes []change, x *index) (id string,
	skipped []Skipped, err error) {
	changes, skipped, err = t.admit(ctx, changes)
	if err != nil || len(changes) == 0 {
		return "", skipped, err
	}
	id, left, err := t.commitSurely(ctx, a, title, changes, x)
	skipped = append(skipped, left...)
	if err != nil || t.aside != "" {
		return id, skipped, err
	}
	return id, skipped, t.record(ctx, state{head: id, base: t.state.base}, true)
}

// commitSurely makes a commit, and tries again if another process kills git or has locked the reference.
func (t *tree) commitSurely(ctx context.Context, a Action, title string, changes []change, x *index) (id string,
	left []Skipped, err error) {
	for range maxRaces {
		if id, left, err = t.commitOnce(ctx, a, title, changes, x); err == nil {
			return id, left, nil
		}
		var failed *gitError
		if !errors.As(err, &failed) || failed.code >= 0 && !strings.Contains(failed.message, "lock") {
			return "", left, err
		}
		t.store.removeStaleLock(t.commitRef())
		select {
		case <-ctx.Done():
			return "", left, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		// The killed git may have made the commit.
		if id, by, err := t.pending(ctx); t.aside == "" && err == nil && id != "" && by == a.call() {
			return id, left, nil
		}
	}
	return "", left, fmt.Errorf("branch %s is locked all the time", Branch(a.Tenant, a.Session))
}

// commitRef returns the reference that gets new commits: one beside the branch, until the commit is recorded.
func (t *tree) commitRef() string {
	if t.aside != "" {
		return t.aside
	}
	return pendingRef(t.action.Tenant, t.action.Session, t.row.Epoch)
}

// commitOnce tries once to make the commit.
func (t *tree) commitOnce(ctx context.Context, a Action, title string, changes []change, x *index) (string, []Skipped,
	error) {
	in, send := io.Pipe()
	files := map[string]indexed{} // what was sent, for the index
	var left []Skipped
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w := bufio.NewWriter(send)
		var err error
		left, err = t.export(w, a, title, changes, files)
		_ = send.CloseWithError(errors.Join(err, w.Flush())) // git then misses the end of its input
	}()
	out := &limitedBuffer{max: maxMessage}
	err := run(ctx, t.store.dir, in, out, "--git-dir="+t.store.store(), "fast-import", "--quiet", "--force",
		"--date-format=raw")
	_ = in.CloseWithError(errEnded)
	<-sent
	id := strings.TrimSpace(out.kept.String())
	if err == nil && !objectID.MatchString(id) {
		err = errors.New("git fast-import: no commit was made")
	}
	if err != nil {
		return "", left, err
	}
	if x != nil {
		for name, f := range files {
			if delete(x.files, name); f.mode != "" {
				x.set(name, f)
			}
		}
		x.commit = id
	}
	return id, left, nil
}

// staleLock is the age from which the lock of a branch counts as left behind by a killed git. A running git holds it
// for milliseconds.
const staleLock = 10 * time.Second

// removeStaleLock removes the lock of a branch if a killed git has left it behind.
func (s *Store) removeStaleLock(ref string) {
	lock := filepath.Join(s.store(), ref+".lock")
	if info, err := os.Lstat(lock); err == nil && time.Since(info.ModTime()) > staleLock {
		_ = os.Remove(lock) // if it fails, the next try meets the lock again
	}
}

var errEnded = errors.New("git has ended")

// export writes a commit as the input of git fast-import, whose ID get-mark then prints. It returns what it leaves out:
// files that it cannot read. files gets what the commit has; a file without a mode is deleted.
func (t *tree) export(w io.Writer, a Action, title string, changes []change,
	files map[string]indexed) (left []Skipped, err error) {
	message := a.message(title, t.state.base)
	fmt.Fprintf(w, "feature done\ncommit %s\nmark :1\ncommitter %s <%s> %d +0000\ndata %d\n%s\n",
		t.commitRef(), author, email, time.Now().Unix(), len(message), message)
	if t.state.head != "" {
		fmt.Fprintf(w, "from %s\n", t.state.head)
	}
	for _, c := range changes { // first, because a file may take the place of a directory
		if c.removed {
			files[c.path] = indexed{}
			fmt.Fprintf(w, "D %s\n", quote(c.path))
		}
	}
	size := 0
	for _, c := range changes {
		if c.removed {
			continue
		}
		mode, content, e, err := t.read(c.path)
		if err == nil && size+len(content) > maxChanged {
			err = fmt.Errorf("the commit would exceed %d MiB", maxChanged>>20)
		}
		if err != nil {
			left = append(left, Skipped{c.path, plain(err)})
			continue
		}
		size += len(content)
		files[c.path] = indexed{entry{mode, t.store.blobID(content)}, stamp(e)}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n", mode, quote(c.path), len(content))
		if _, err := w.Write(append(content, '\n')); err != nil {
			return left, err
		}
	}
	_, err = io.WriteString(w, "get-mark :1\ndone\n")
	return left, err
}

// read returns a file of the tree: see readFile.
func (t *tree) read(name string) (mode string, content []byte, e beneath.Entry, err error) {
	d, err := openPath(t.root, path.Dir(name))
	if err != nil {
		return "", nil, e, err
	}
	defer d.Close()
	if e, err = beneath.Lstat(d, path.Base(name)); err != nil {
		return "", nil, e, err
	}
	return readFile(d, path.Base(name), e)
}

// openPath opens a directory below root, part by part.
func openPath(root *os.File, name string) (*os.File, error) {
	d, err := beneath.OpenDir(root, ".")
	for _, part := range parts(name) {
		if err != nil {
			return nil, err
		}
		below, berr := beneath.OpenDir(d, part)
		_ = d.Close() // it was only read
		d, err = below, berr
	}
	return d, err
}

// quote returns a path as a C-style string, as git fast-import reads it.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// changesOf returns those files of paths that differ from the commit at the head. The index x is that of the head; it
// may be nil.
func (t *tree) changesOf(ctx context.Context, paths []string, x *index) (changes []change, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	for i, name := range paths {
		if paths[i], err = cleanPath(name); err != nil {
			return nil, err
		}
	}
	if x == nil {
		files, err := t.store.list(ctx, t.state.head, paths...)
		if err != nil {
			return nil, err
		}
		x = newIndex(t.state.head, files)
	}
	for _, name := range paths {
		mode, content, _, err := t.read(name)
		was, tracked := x.files[name]
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if tracked {
				changes = append(changes, change{name, true})
			}
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case !tracked || was.entry != (entry{mode, t.store.blobID(content)}):
			changes = append(changes, change{path: name})
		}
	}
	return changes, nil
}
