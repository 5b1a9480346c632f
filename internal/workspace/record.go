package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

// A new state of a canvas takes effect in three places, in this order: at the remote, in the journal, and in the store.
// The journal decides: if another place has taken the tree over, the state never was. What an interrupted process has
// done of it is done again.

// record makes to the state of the canvas. made means that the commit is that of commitRef. The error is a *RemoteError
// or wraps journal.ErrUnavailable if it may be recorded later, and a *TakenError if another place has the tree.
func (t *tree) record(ctx context.Context, to state, made bool) error {
	err := t.recordOnce(ctx, to)
	for wait := 200 * time.Millisecond; isAway(err) && time.Now().Add(wait).Before(t.until); wait = min(2*wait,
		2*time.Second) {
		time.Sleep(wait)
		err = t.recordOnce(ctx, to)
	}
	if errors.Is(err, journal.ErrStale) {
		return t.taken(ctx, to.head)
	}
	if err != nil {
		return err
	}
	old := t.state.head
	if old == "" {
		old = zeroID(to.head)
	}
	a := t.action
	updates := fmt.Sprintf("update %s %s %s\n", t.ref, to.head, old)
	if to.base != "" {
		updates += fmt.Sprintf("update %s %s\n", baseRef(a.Tenant, a.Session), to.base)
	}
	if made {
		updates += "delete " + t.commitRef() + "\n"
	}
	if err := t.moveRefs(ctx, updates); err != nil {
		return err
	}
	t.state = to
	return nil
}

// moveRefs changes the references of the canvas, and tries again if git is killed or another process has locked the
// branch.
func (t *tree) moveRefs(ctx context.Context, updates string) error {
	for range maxRaces {
		_, err := t.store.git(ctx, []byte(updates), "update-ref", "--stdin")
		var failed *gitError
		if !errors.As(err, &failed) || failed.code >= 0 && !strings.Contains(failed.message, ".lock") {
			return err
		}
		t.store.removeStaleLock(t.ref)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("branch %s is locked all the time", Branch(t.action.Tenant, t.action.Session))
}

// isAway reports whether err is that of a remote or a journal that does not answer.
func isAway(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && !remote.Refused || errors.Is(err, journal.ErrUnavailable)
}

// recordOnce makes a state that of the remote and of the journal. The error wraps journal.ErrStale if another place has
// the tree.
func (t *tree) recordOnce(ctx context.Context, to state) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	if err := t.push(ctx, to.head); err != nil {
		return err
	}
	return t.advance(ctx, to)
}

// check returns an error that wraps journal.ErrStale if the journal says that another place has the tree.
func (t *tree) check(ctx context.Context) error {
	j := t.store.o.journal()
	if j == nil {
		return nil
	}
	row, _, err := j.Tree(ctx, t.action.Tenant, t.action.Session)
	if errors.Is(err, journal.ErrNotFound) || err == nil && (row.Epoch != t.row.Epoch || row.Place != t.row.Place) {
		return journal.ErrStale
	}
	return err
}

// advance records a state in the journal. The error wraps journal.ErrStale if another place has the tree.
func (t *tree) advance(ctx context.Context, to state) error {
	j := t.store.o.journal()
	if j == nil {
		return nil
	}
	row := t.row
	row.Head, row.Base = to.head, to.base
	err := j.MoveTree(ctx, t.action.Tenant, t.action.Session, t.store.o.Worker, row)
	if err == nil {
		t.row = row
	}
	return err
}

// taken keeps a commit, or what has changed in the tree if it is empty, under a reference, and removes the tree, which
// another place has. It returns a *TakenError.
func (t *tree) taken(ctx context.Context, commit string) error {
	e := &TakenError{Session: t.action.Session}
	var err error
	if commit != "" {
		e.Kept = t.asideRef()
		_, err = t.store.git(ctx, nil, "update-ref", e.Kept, commit)
	}
	if err == nil {
		err = t.release(ctx)
	}
	return errors.Join(e, err)
}

// asideRef returns a new name for a commit that is not on the branch.
func (t *tree) asideRef() string {
	return asideRefs(t.action.Tenant, t.action.Session) + strconv.FormatInt(time.Now().UnixNano(), 10)
}

// release removes the directory of a tree that this place no longer has. What differs from the branch is kept under a
// reference, and so is the commit of a call that was not recorded.
func (t *tree) release(ctx context.Context) error {
	if id, _, err := t.pending(ctx); err == nil && id != "" {
		updates := fmt.Sprintf("update %s %s\ndelete %s\n", t.asideRef(), id, t.commitRef())
		if _, err := t.store.git(ctx, []byte(updates), "update-ref", "--stdin"); err != nil {
			return err
		}
		t.state.head = id
	}
	changes, _, _, err := t.changed(ctx)
	if err == nil && len(changes) > 0 {
		err = t.keep(ctx, t.action, changes)
	}
	if err != nil {
		return err
	}
	return errors.Join(t.store.removeTree(t.name), t.store.unmark(t.name), t.store.setJobs(t.name, nil))
}

// pending returns the commit that a call has made and that is not recorded, and the call's trailer.
func (t *tree) pending(ctx context.Context) (id, call string, err error) {
	line, err := t.store.firstLine(ctx, "for-each-ref", "--format=%(objectname) %(contents:trailers:key="+trailerCall+
		",valueonly,separator=)", pendingRef(t.action.Tenant, t.action.Session, t.row.Epoch))
	id, call, _ = strings.Cut(line, " ")
	return id, call, err
}

// resume records the commit of a call that was interrupted before.
func (t *tree) resume(ctx context.Context) error {
	id, _, err := t.pending(ctx)
	if err != nil || id == "" {
		return err
	}
	parent, err := t.store.firstLine(ctx, "rev-parse", "--verify", "--quiet", id+"^1")
	if refused(err) {
		parent, err = "", nil
	}
	if err != nil {
		return err
	}
	if parent == t.state.head {
		return t.record(ctx, state{head: id, base: t.state.base}, true)
	}
	updates := fmt.Sprintf("update %s %s\ndelete %s\n", t.asideRef(), id, t.commitRef())
	_, err = t.store.git(ctx, []byte(updates), "update-ref", "--stdin")
	return err
}

// follows makes the references of the store those of the journal, which has moved if a process was killed or another
// place had the tree.
func (t *tree) follows(ctx context.Context) error {
	s, a, to := t.store, t.action, state{head: t.row.Head, base: t.row.Base}
	if t.state == to || to.head == "" {
		return nil
	}
	if err := s.bring(ctx, a, t.row, ""); err != nil {
		return err
	}
	if to.base != "" { // the store may borrow it
		if err := s.hold(ctx, a, to.base); err != nil {
			return err
		}
	}
	if err := s.leave(ctx, leftRefs(a.Tenant, a.Session), t.state.head, to.head); err != nil {
		return err
	}
	updates := fmt.Sprintf("update %s %s\n", t.ref, to.head)
	if to.base != "" {
		updates += fmt.Sprintf("update %s %s\n", baseRef(a.Tenant, a.Session), to.base)
	}
	_, err := s.git(ctx, []byte(updates), "update-ref", "--stdin")
	t.state = to
	return err
}

// heldFile has the qualified name of a session of which this place has made the tree.
func (s *Store) heldFile(tenant, session string) string {
	return s.callFile(dirName(tenant, session)) + ".tree"
}

// Release removes the trees that other places have taken over, for instance while the worker of this one was away. What
// no commit has is kept under references of the store.
func (s *Store) Release(ctx context.Context) error {
	if s.o.journal() == nil {
		return nil
	}
	files, err := filepath.Glob(s.callFile("*.tree"))
	for _, file := range files {
		b, rerr := os.ReadFile(file)
		if rerr == nil {
			tenant, session := unqualified(string(b))
			rerr = s.releaseMoved(ctx, Action{Tenant: tenant, Session: session})
		}
		err = errors.Join(err, rerr)
	}
	return err
}

// releaseMoved removes what this place has of a session's tree, unless the tree is here, or a process still uses it.
func (s *Store) releaseMoved(ctx context.Context, a Action) error {
	row, here, err := s.isHere(ctx, a.Tenant, a.Session)
	if err != nil || here {
		return err
	}
	row.Epoch++ // with this lock, no other process here can begin to take the tree back
	t := s.treeOf(a, row)
	if err := t.waitSoon(ctx); err != nil || t.lock == nil {
		return err
	}
	defer t.lock.Release() //nolint:errcheck // the process ends the lock, too
	if _, here, err = s.isHere(ctx, a.Tenant, a.Session); err != nil || here {
		return err
	}
	if err := t.releaseEarlier(ctx); err != nil {
		return err
	}
	if left, err := s.epochs(a.Tenant, a.Session); err != nil || len(left) > 0 {
		return err
	}
	if t.state, _, err = s.readState(ctx, a.Tenant, a.Session); err == nil {
		err = t.unlink(ctx)
	}
	return errors.Join(err, os.Remove(s.heldFile(a.Tenant, a.Session)))
}

// isHere reports whether this place has the tree of a session. It also does if the journal does not know the tree.
func (s *Store) isHere(ctx context.Context, tenant, session string) (row journal.Tree, here bool, err error) {
	j := s.o.journal()
	if j == nil {
		return row, true, nil
	}
	row, _, err = j.Tree(ctx, tenant, session)
	if errors.Is(err, journal.ErrNotFound) {
		return row, true, nil
	}
	return row, row.Place == s.place, err
}

// unlink removes the branch of a canvas that this place does not have any more. The store keeps its commits.
func (t *tree) unlink(ctx context.Context) error {
	s, a := t.store, t.action
	err := s.leave(ctx, leftRefs(a.Tenant, a.Session), t.state.head, t.state.base)
	if err == nil {
		refs := fmt.Sprintf("delete %s\ndelete %s\ndelete %s\n", t.ref, baseRef(a.Tenant, a.Session),
			trackRef(a.Tenant, a.Session))
		_, err = s.git(ctx, []byte(refs), "update-ref", "--stdin")
	}
	if err == nil {
		_, err = s.gitIn(ctx, s.gitDir, []byte("delete "+heldRef(a.Tenant, a.Session)+"\n"), "update-ref", "--stdin")
	}
	return err
}

// releaseEarlier removes the trees that this place had of a session in other epochs, unless a process still uses them.
func (t *tree) releaseEarlier(ctx context.Context) error {
	a := t.action
	epochs, err := t.store.epochs(a.Tenant, a.Session)
	for _, epoch := range epochs {
		if epoch != t.row.Epoch {
			err = errors.Join(err, t.store.releaseEpoch(ctx, a, epoch))
		}
	}
	return err
}

// releaseEpoch removes the tree of an epoch, unless a process still uses it.
func (s *Store) releaseEpoch(ctx context.Context, a Action, epoch int64) (err error) {
	t := s.treeOf(Action{Tenant: a.Tenant, Session: a.Session}, journal.Tree{Epoch: epoch})
	if err := t.waitSoon(ctx); err != nil || t.lock == nil {
		return err
	}
	if t.root, err = os.Open(s.treeDir(t.name)); err == nil {
		t.state, _, err = s.readState(ctx, a.Tenant, a.Session)
	}
	if err == nil {
		err = t.release(ctx)
	}
	return errors.Join(ignoreMissing(err), t.close())
}

// lockSoon is how long waitSoon waits for a tree: a process that has it may be suspended.
const lockSoon = 100 * time.Millisecond

// waitSoon locks the tree if no process uses it.
func (t *tree) waitSoon(ctx context.Context) (err error) {
	waiting, cancel := context.WithTimeout(ctx, lockSoon)
	defer cancel()
	t.lock, err = statedir.Exclusive(waiting, t.store.lockFile(t.name))
	return ignoreBusy(ctx, err)
}

// epochs returns the epochs in which this place had the tree of a session, as far as there are directories.
func (s *Store) epochs(tenant, session string) (out []int64, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "trees"))
	for _, e := range entries {
		name, suffix, numbered := strings.Cut(e.Name(), ".")
		epoch := int64(1)
		if numbered {
			if epoch, err = strconv.ParseInt(suffix, 10, 64); err != nil {
				return nil, err
			}
		}
		if name == dirName(tenant, session) {
			out = append(out, epoch)
		}
	}
	return out, err
}
