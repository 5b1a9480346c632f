package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/statedir"
)

// tree is the tree of a session while one call changes it.
type tree struct {
	store *Store
	name  string // in the directories of the store
	ref   string // of its branch
	state state
	root  *os.File
	lock  *statedir.Lock
	made  Made
}

// Made says whether a call has made the directory of its tree, and at which commit.
type Made struct {
	New bool
	At  string // empty in a repository without commits
}

// Path returns the directory of a session's tree in the state folder, whether it exists or not.
func (s *Store) Path(tenant, session string) string { return s.treeDir(dirName(tenant, session)) }

// Borrowed returns the directories of objects that the git repositories of trees need for reading, beside their own.
func (s *Store) Borrowed() []string {
	return []string{filepath.Join(s.store(), "objects"), filepath.Join(s.gitDir, "objects")}
}

// Begins returns where the canvas of a session begins. It is called if the canvas does not exist; nil means the zero
// Origin.
type Begins func(ctx context.Context) (Origin, error)

// Read makes the session's tree if it does not exist, and returns its directory.
func (s *Store) Read(ctx context.Context, a Action, origin Begins) (dir string, made Made, err error) {
	dir = s.Path(a.Tenant, a.Session)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		s.used(dirName(a.Tenant, a.Session))
		return dir, made, err
	}
	t, err := s.open(ctx, a, origin)
	if err != nil {
		return "", made, err
	}
	return dir, t.made, t.close()
}

// used records that a tree is in use: see Sweep.
func (s *Store) used(name string) {
	now := time.Now()
	_ = os.Chtimes(s.lockFile(name), now, now) // the next call tries again
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
}

// Result is what Change has committed.
type Result struct {
	Made   Made
	Commit string   // empty if the call changed nothing
	Files  []string // the paths that the commit changes
	// Earlier means that an earlier attempt of the call made the commit, and Run was not called.
	Earlier bool
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
	res.Made = t.made
	if res.Commit, err = s.commitOf(ctx, t.state, a); err != nil || res.Commit != "" {
		res.Earlier = true
		if err == nil {
			res.Files, err = s.ChangedBy(ctx, res.Commit)
		}
		return res, err
	}
	if err := t.commitJobs(ctx); err != nil {
		return res, err
	}
	if err := s.mark(t.name, unfinished{Action: a}); err != nil {
		return res, err
	}
	dir := s.treeDir(t.name)
	paths, runErr := c.Run(dir)
	ctx = context.WithoutCancel(ctx) // a call that was cancelled has changed the tree, too
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
	if err != nil {
		return res, errors.Join(runErr, fmt.Errorf("committing the changes of the tree: %w", err))
	}
	if c.Job > 0 && runErr == nil {
		runErr = t.addJob(a, c)
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
	return found.changes, found.skipped, x, nil
}

// unfinished names the call that is changing a tree. Follow means that the call moves the branch first, and the tree
// follows: what then differs is the state before.
type unfinished struct {
	Action
	Follow bool `json:",omitempty"`
	// Merged is a commit that is the canvas's head once the user's branch Into has it.
	Merged, Into string `json:",omitempty"`
}

// mark records the call that is changing a tree.
func (s *Store) mark(name string, u unfinished) error {
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return statedir.Replace(s.callFile(name), string(b))
}

// unmark removes the record of mark.
func (s *Store) unmark(name string) error {
	if err := os.Remove(s.callFile(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// beforeDeadline is how long before its deadline a call stops waiting for its tree.
const beforeDeadline = 500 * time.Millisecond

// errBusy is the error of a call that did not get its tree in time.
var errBusy = errors.New("another call of this session is changing the files; nothing was done: call again when it has ended")

// open locks the session's tree, makes it if it does not exist, and ends what an interrupted call has left unfinished.
func (s *Store) open(ctx context.Context, a Action, origin Begins) (t *tree, err error) {
	t = &tree{store: s, name: dirName(a.Tenant, a.Session), ref: headRef(a.Tenant, a.Session)}
	waiting, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		waiting, cancel = context.WithDeadline(ctx, deadline.Add(-beforeDeadline))
	}
	defer cancel()
	if t.lock, err = statedir.Exclusive(waiting, s.lockFile(t.name)); err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			err = errBusy
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	ctx = t.locked(ctx)
	var begun bool
	if t.state, begun, err = s.readState(ctx, a.Tenant, a.Session); err != nil {
		return t, err
	}
	// A tree without a branch began in a repository without commits. It stays without them if the user makes some.
	_, missing := os.Lstat(s.treeDir(t.name))
	if !begun && missing != nil {
		var from Origin
		if origin != nil {
			from, err = origin(ctx)
		}
		if err == nil {
			t.state, err = s.begin(ctx, a, from)
		}
		if err != nil {
			return t, err
		}
	}
	s.used(t.name)
	if missing != nil {
		t.made = Made{true, t.state.head}
		if err = s.makeTree(ctx, t.name, Branch(a.Tenant, a.Session), t.state.head); err != nil {
			return t, fmt.Errorf("making the tree of the session: %w", err)
		}
	}
	if t.root, err = os.Open(s.treeDir(t.name)); err != nil {
		return t, err
	}
	return t, t.recover(ctx, a)
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

// recover ends what an interrupted call has left unfinished in the tree. If this is the same call, which now runs
// again, or if the tree was about to follow the branch, the tree goes back to its head, and what it had is kept under a
// reference. Otherwise it becomes a commit of the interrupted call.
func (t *tree) recover(ctx context.Context, a Action) error {
	b, err := os.ReadFile(t.store.callFile(t.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var u unfinished
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	if err != nil {
		return fmt.Errorf("reading which call was interrupted: %w", err)
	}
	if u.Merged != "" && t.store.isMerged(ctx, u) && t.state.head != u.Merged {
		return t.moveTo(ctx, u.Action, state{head: u.Merged, base: u.Merged}, leftRefs)
	}
	changes, _, x, err := t.changed(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(changes) == 0:
	case u.call() == a.call() || u.Follow:
		err = t.goBack(ctx, u.Action, changes, x)
	default:
		_, _, err = t.commit(ctx, u.Action, "what an interrupted call has left", changes, x)
	}
	if err != nil {
		return err
	}
	return t.store.unmark(t.name)
}

// goBack gives the changed files of the tree the content of its head. What they had is kept under a reference.
func (t *tree) goBack(ctx context.Context, a Action, changes []change, x *index) error {
	if err := t.keep(ctx, a, changes); err != nil {
		return err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.path
	}
	return t.store.restore(ctx, t.root, x, paths)
}

// keep commits changes beside the branch, under a reference of their own.
func (t *tree) keep(ctx context.Context, a Action, changes []change) error {
	aside := *t
	aside.ref = asideRefs(a.Tenant, a.Session) + strconv.FormatInt(time.Now().UnixNano(), 10)
	_, _, err := aside.commit(ctx, a, "what an interrupted call has left", changes, nil)
	return err
}

// Note returns the files that were left out in one line for the model, or "".
func (r Result) Note() string {
	if len(r.Skipped) == 0 {
		return ""
	}
	var names []string
	for i, f := range r.Skipped {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(r.Skipped)-i))
			break
		}
		names = append(names, oneLine(f.Path, 200)+" ("+f.Why+")")
	}
	return "[not committed: " + strings.Join(names, "; ") + "]"
}

// maxNamed bounds how many files a message names.
const maxNamed = 20
