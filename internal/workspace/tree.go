package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

// tree is the tree of a session while one call changes it.
type tree struct {
	store       *Store
	action      Action
	row         journal.Tree // what the journal knows: see Store.row
	name        string       // in the directories of the store
	ref         string       // of its branch
	aside       string       // the reference of commits that are not for the branch; empty for others
	until       time.Time    // until when record waits for the remote and the journal
	state       state
	made        Made
	interrupted *unfinished // the call that was changing the tree when its process was killed
	root        *os.File
	lock        *statedir.Lock
}

// Made says whether a call has made the directory of its tree, and at which commit.
type Made struct {
	New bool
	At  string // empty in a repository without commits
}

// Path returns the directory of a session's tree in the state folder, whether it exists or not.
func (s *Store) Path(tenant, session string) string { return s.treeDir(s.nameHere(tenant, session)) }

// nameHere returns the name of the tree that this place has of a session, or had last.
func (s *Store) nameHere(tenant, session string) string {
	latest := int64(1)
	epochs, err := s.epochs(tenant, session)
	if err == nil && len(epochs) > 0 {
		latest = slices.Max(epochs)
	}
	return treeName(tenant, session, latest)
}

// Borrowed returns the directories of objects that the git repositories of trees need for reading, beside their own.
func (s *Store) Borrowed() []string {
	return []string{filepath.Join(s.store(), "objects"), filepath.Join(s.gitDir, "objects")}
}

// Begins returns where the canvas of a session begins. It is called if the canvas does not exist; nil means the zero
// Origin.
type Begins func(ctx context.Context) (Origin, error)

// Read makes the session's tree if it does not exist, and returns its directory. Of the result, Made and Notice are set.
func (s *Store) Read(ctx context.Context, a Action, origin Begins) (dir string, res Result, err error) {
	row, err := s.row(ctx, a)
	if err != nil {
		return "", res, err
	}
	name := treeName(a.Tenant, a.Session, row.Epoch)
	if _, err := os.Lstat(s.treeDir(name)); err == nil && (row.Place != "" || s.o.journal() == nil) {
		s.used(a.Tenant, a.Session)
		return s.treeDir(name), Result{Notice: s.takeNotice(name)}, nil
	}
	t, err := s.open(ctx, a, origin)
	if err != nil {
		return "", res, err
	}
	return s.treeDir(t.name), Result{Made: t.made, Notice: s.takeNotice(t.name)}, t.close()
}

// used records that a tree is in use: see Sweep.
func (s *Store) used(tenant, session string) {
	_ = s.setUsed(tenant, session, time.Now()) // the next call tries again
}

// Change is what a call does to a tree.
type Change struct {
	Title string // of the commit
	// Run changes files in the directory dir. It returns the paths of those that it may have changed, or nil if any may
	// have changed. After an error, what has changed is committed, too.
	Run func(dir string) (paths []string, err error)
	// Job, if it is not 0, means that a process which Run has started goes on changing the tree: for this long at most,
	// or until JobEnded is called.
	Job time.Duration
	// Report returns what Run has done and its error, in words. If the commit could not be recorded, the next attempt of the
	// call gets them in Result. It may be nil.
	Report func() (done string, failed error)
	// Once means that the call is not attempted again: it waits for the remote until shortly before its deadline.
	Once bool
}

// Result is what Change has committed.
type Result struct {
	Made   Made
	Notice string   // what the user and the model should know of the tree, once; mostly empty
	Commit string   // empty if the call changed nothing
	Files  []string // the paths that the commit changes
	// Earlier means that an earlier attempt of the call made the commit, and Run was not called.
	Earlier bool
	Report  string // of the earlier attempt: see Change.Report
	Skipped []Skipped
}

// Change runs a call that changes the session's tree, and commits what it has changed. If the call has already made a
// commit, Change returns that one. A tree has one call at a time: others wait until shortly before their deadline.
// The error is that of Run, or one of the tree; the result is valid in both cases.
func (s *Store) Change(ctx context.Context, a Action, origin Begins, c Change) (res Result, err error) {
	t, err := s.open(ctx, a, origin)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	res.Made, res.Notice = t.made, s.takeNotice(t.name)
	if res.Commit, err = s.commitOf(ctx, t.state, a); err != nil || res.Commit != "" {
		return t.earlier(ctx, res, err)
	}
	if err := t.commitJobs(ctx); err != nil {
		return res, err
	}
	if deadline, ok := ctx.Deadline(); ok && c.Once {
		t.until = deadline.Add(-2 * beforeDeadline)
	}
	if err := s.mark(t.name, unfinished{Action: a}); err != nil {
		return res, err
	}
	return t.run(ctx, a, c, res)
}

// earlier returns the result of a call whose commit an earlier attempt has made. err is that of looking for it.
func (t *tree) earlier(ctx context.Context, res Result, err error) (Result, error) {
	res.Earlier = true
	if err == nil {
		res.Files, err = t.store.ChangedBy(ctx, res.Commit)
	}
	switch u := t.interrupted; {
	case err != nil || u == nil || u.call() != t.action.call():
	case u.Failed:
		err = errors.New(u.Report)
	default:
		res.Report = u.Report
	}
	return res, err
}

// run runs a call in the tree and commits what it has changed.
func (t *tree) run(ctx context.Context, a Action, c Change, res Result) (_ Result, err error) {
	s := t.store
	paths, runErr := c.Run(s.treeDir(t.name))
	ctx = context.WithoutCancel(ctx) // a call that was cancelled has changed the tree, too
	if c.Job > 0 && runErr == nil {
		if err := t.addJob(a, c); err != nil {
			return res, err
		}
	}
	var changes []change
	var x *index
	if paths != nil {
		if old, ok := s.indexes.Peek(t.name); ok && old.commit == t.state.head {
			x = old
		}
		changes, err = t.changesOf(ctx, paths, x)
	} else {
		changes, res.Skipped, x, err = t.changed(ctx)
	}
	if err == nil {
		var skipped []Skipped
		res.Commit, skipped, err = t.commit(ctx, a, c.Title, changes, x)
		res.Skipped = append(res.Skipped, skipped...)
		for _, c := range changes {
			res.Files = append(res.Files, c.path)
		}
	}
	if isAway(err) && c.Report != nil {
		u := unfinished{Action: a}
		var failed error
		if u.Report, failed = c.Report(); failed != nil {
			u.Report, u.Failed = failed.Error(), true
		}
		err = errors.Join(err, s.mark(t.name, u))
	}
	if err != nil {
		return res, errors.Join(runErr, fmt.Errorf("committing the changes of the tree: %w", err))
	}
	return res, errors.Join(runErr, s.unmark(t.name))
}

// changed scans the tree and returns the files that differ from its head.
func (t *tree) changed(ctx context.Context) ([]change, []Skipped, *index, error) {
	x, err := t.store.indexOf(ctx, t.name, t.state.head)
	if err != nil {
		return nil, nil, nil, err
	}
	found, err := t.store.scan(ctx, t.root, x)
	if err != nil {
		return nil, nil, nil, err
	}
	t.row.Ignored = found.left
	return found.changes, found.skipped, x, nil
}

// beforeDeadline is how long before its deadline a call stops waiting for its tree.
const beforeDeadline = 500 * time.Millisecond

// errBusy is the error of a call that did not get its tree in time.
var errBusy = errors.New("another call of this session is changing the files; nothing was done: call again when it " +
	"has ended")

// open locks the session's tree, makes it if it does not exist, and ends what an interrupted call has left unfinished.
// The error may be an *ElsewhereError, a *LostError, or that of record.
func (s *Store) open(ctx context.Context, a Action, origin Begins) (*tree, error) {
	t, err := s.acquire(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := t.enter(ctx, origin); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// acquire locks the session's tree, which this place has or may take over.
func (s *Store) acquire(ctx context.Context, a Action) (*tree, error) {
	for {
		row, err := s.row(ctx, a)
		if err != nil {
			return nil, err
		}
		t := s.treeOf(a, row)
		if err = t.wait(ctx); err != nil {
			return nil, err
		}
		if t.row, err = s.row(ctx, a); err == nil && t.row.Epoch == row.Epoch {
			return t, nil
		}
		if err = errors.Join(err, t.close()); err != nil {
			return nil, err
		} // otherwise it has moved meanwhile
	}
}

func (s *Store) treeOf(a Action, row journal.Tree) *tree {
	return &tree{store: s, action: a, row: row, ref: headRef(a.Tenant, a.Session),
		name: treeName(a.Tenant, a.Session, row.Epoch)}
}

// wait waits for the lock of the tree until shortly before the call's deadline.
func (t *tree) wait(ctx context.Context) (err error) {
	waiting, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		waiting, cancel = context.WithDeadline(ctx, deadline.Add(-beforeDeadline))
	}
	defer cancel()
	t.lock, err = statedir.Exclusive(waiting, t.store.lockFile(t.name))
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return errBusy
	}
	return err
}

// enter makes the locked tree if it does not exist, and brings it, the store and the journal to the same state.
func (t *tree) enter(ctx context.Context, origin Begins) (err error) {
	s, a := t.store, t.action
	ctx = t.locked(ctx)
	if err := t.releaseEarlier(ctx); err != nil {
		return err
	}
	var begun bool
	t.state, begun, err = s.readState(ctx, a.Tenant, a.Session)
	if err == nil && t.row.Place == "" && t.row.Epoch > 1 && begun { // another place has dropped the canvas
		err = t.unlink(ctx)
		t.state, begun = state{}, false
	}
	if err != nil {
		return err
	}
	// A tree without a branch began in a repository without commits. It stays without them if the user makes some.
	_, missing := os.Lstat(s.treeDir(t.name))
	switch {
	case t.row.Place != "":
		err = t.follows(ctx)
	case !begun && missing != nil:
		err = t.begin(ctx, origin)
	default:
		err = t.advanceFirst(ctx, t.state)
	}
	if err != nil {
		return err
	}
	s.used(a.Tenant, a.Session)
	if missing != nil {
		t.made = Made{true, t.state.head}
		if err = s.makeTree(ctx, t.name, Branch(a.Tenant, a.Session), t.state.head); err == nil {
			err = statedir.Replace(s.heldFile(a.Tenant, a.Session), qualified(a.Tenant, a.Session))
		}
		if err != nil {
			return fmt.Errorf("making the tree of the session: %w", err)
		}
	}
	if t.root, err = os.Open(s.treeDir(t.name)); err != nil {
		return err
	}
	if err := t.resume(ctx); err != nil {
		return err
	}
	return t.recover(ctx, a)
}

// locked returns the context for git commands that must not outlast the call which has the tree: see lockKey.
func (t *tree) locked(ctx context.Context) context.Context {
	return context.WithValue(ctx, lockKey{}, t.lock)
}

func (t *tree) close() error {
	if t.root != nil {
		_ = t.root.Close() // it was only read
	}
	return t.lock.Release()
}

// makeTree makes the directory of a tree at a commit, beside its place, so that a directory in its place is complete.
// Git runs in it as long as no command has reached it.
func (s *Store) makeTree(ctx context.Context, name, branch, commit string) error {
	dir := s.treeDir(name)
	made := filepath.Join(s.scratch(), name)
	if err := os.RemoveAll(made); err != nil { // of a process that was killed
		return err
	}
	if err := os.Remove(s.setupFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the new tree needs its setup
	}
	if err := s.initRepo(ctx, made, "-b", branch); err != nil {
		return err
	}
	git := filepath.Join(made, ".git")
	err := errors.Join(s.lend(git, s.Borrowed()...), s.shallow(git))
	for _, setting := range [][2]string{{"user.name", author}, {"user.email", email}, {"gc.auto", "0"}} {
		if err == nil {
			_, err = s.gitIn(ctx, git, nil, "config", setting[0], setting[1])
		}
	}
	if err == nil && commit != "" {
		_, err = s.gitIn(ctx, git, nil, "update-ref", "refs/heads/"+branch, commit)
		if err == nil {
			_, err = s.gitIn(ctx, git, nil, "read-tree", commit)
		}
	}
	if err != nil {
		return err
	}
	root, err := os.Open(made)
	if err != nil {
		return err
	}
	defer root.Close()
	x, err := s.checkout(ctx, root, commit)
	if err == nil {
		err = os.Rename(made, dir)
	}
	if err == nil {
		s.indexes.Add(name, x)
	}
	return err
}

// Note returns the notice and the files that were left out for the model, each in a line, or "".
func (r Result) Note() string {
	if len(r.Skipped) == 0 {
		return r.Notice
	}
	var names []string
	for _, f := range r.Skipped {
		names = append(names, oneLine(f.Path, 200)+" ("+f.Why+")")
	}
	note := "[not committed: " + list(names) + "]"
	if r.Notice != "" {
		note = r.Notice + "\n" + note
	}
	return note
}

// maxNamed bounds how many files a message names.
const maxNamed = 20
