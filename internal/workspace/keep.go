package workspace

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Canvas is a canvas in a list.
type Canvas struct {
	Session string `json:"session"`
	// Unmerged is the number of commits that no branch or tag of the user's repository has.
	Unmerged int `json:"unmerged"`
	// Tree is the directory of the tree, or empty if it was removed; the next call makes it again.
	Tree   string    `json:"tree,omitempty"`
	UsedAt time.Time `json:"used_at"`
	// TreeGoesAt is when Sweep removes the directory, and GoesAt when it removes the canvas; the zero time means never.
	TreeGoesAt time.Time `json:"tree_goes_at,omitzero"`
	GoesAt     time.Time `json:"goes_at,omitzero"`

	tenant string
	aside  bool // the store has commits that were taken back
}

// mergedKeep is how long the directory of a tree is kept that has nothing unmerged.
const mergedKeep = 24 * time.Hour

// List returns the canvases of a tenant, the latest used first. keep is how long unused trees are kept; 0: forever.
func (s *Store) List(ctx context.Context, tenant string, keep time.Duration) ([]Canvas, error) {
	all, err := s.canvases(ctx, keep)
	all = slices.DeleteFunc(all, func(c Canvas) bool { return c.tenant != tenant })
	slices.SortStableFunc(all, func(a, b Canvas) int { return b.UsedAt.Compare(a.UsedAt) })
	return all, err
}

// canvases returns the canvases of all tenants that are at this place.
func (s *Store) canvases(ctx context.Context, keep time.Duration) ([]Canvas, error) {
	sessions, err := s.sessions(ctx, "refs/heads/"+branchPrefix)
	if err != nil {
		return nil, err
	}
	var all []Canvas
	for _, q := range sessions {
		tenant, session := unqualified(q)
		_, here, err := s.isHere(ctx, tenant, session)
		if err == nil && !here {
			continue
		}
		var c Canvas
		if err == nil {
			c, err = s.canvas(ctx, tenant, session, keep)
		}
		if errors.Is(err, ErrNoCanvas) { // dropped meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// sessions returns the qualified names of the sessions that have references below a prefix.
func (s *Store) sessions(ctx context.Context, prefix string) (names []string, err error) {
	out, err := s.git(ctx, nil, "for-each-ref", "--format=%(refname)", strings.TrimSuffix(prefix, "/"))
	for ref := range strings.Lines(string(out)) {
		escaped, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(ref), prefix), "/")
		if name, err := url.PathUnescape(escaped); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// unqualified returns the tenant and the session of a name that qualified has made.
func unqualified(name string) (tenant, session string) {
	if rest, ok := strings.CutPrefix(name, "tenant:"); ok {
		if tenant, session, ok = strings.Cut(rest, "/"); ok {
			return tenant, session
		}
	}
	return "", name
}

func (s *Store) canvas(ctx context.Context, tenant, session string, keep time.Duration) (c Canvas, err error) {
	st, err := s.existingState(ctx, tenant, session)
	if err != nil {
		return c, err
	}
	c = Canvas{Session: session, tenant: tenant, UsedAt: s.usedAt(tenant, session)}
	if c.Unmerged, err = s.unmerged(ctx, st); err != nil {
		return c, err
	}
	if _, err := os.Lstat(s.Path(tenant, session)); err == nil {
		c.Tree = s.Path(tenant, session)
	}
	aside, err := s.git(ctx, nil, "for-each-ref", "--count=1", strings.TrimSuffix(asideRefs(tenant, session), "/"))
	c.aside = len(aside) > 0
	if keep > 0 {
		if c.Tree != "" {
			c.TreeGoesAt = c.UsedAt.Add(keep)
			if c.Unmerged == 0 {
				c.TreeGoesAt = c.UsedAt.Add(min(keep, mergedKeep))
			}
		}
		if c.Unmerged == 0 && !c.aside {
			c.GoesAt = c.UsedAt.Add(keep)
		}
	}
	return c, err
}

// setUsed records that a tree was used at a time.
func (s *Store) setUsed(tenant, session string, at time.Time) error {
	file := s.lockFile(dirName(tenant, session)) // also that of a tree of another epoch
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Chtimes(file, at, at))
	}
	return err
}

// usedAt returns when a call has used a tree last.
func (s *Store) usedAt(tenant, session string) time.Time {
	info, err := os.Lstat(s.lockFile(dirName(tenant, session)))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// unmerged returns the number of commits of a canvas that are nowhere else: no branch and no tag of the user's repository
// has its head. It counts from the base.
func (s *Store) unmerged(ctx context.Context, st state) (int, error) {
	if st.head == st.base {
		return 0, nil
	}
	held, err := s.gitIn(ctx, s.gitDir, nil, "for-each-ref", "--count=1", "--contains", st.head, "refs/heads",
		"refs/remotes",
		"refs/tags")
	if err == nil && len(held) > 0 {
		return 0, nil
	}
	if err != nil && !refused(err) { // git refuses to look for a commit that the repository lacks
		return 0, err
	}
	count, err := s.firstLine(ctx, "rev-list", "--count", st.revisions(), "--")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(count)
}

// Unmerged returns what a canvas has, and the number of its commits that are nowhere else. It commits what has changed
// outside of calls.
func (s *Store) Unmerged(ctx context.Context, tenant, session string) (shown Summary, n int, err error) {
	if _, err := s.existingState(ctx, tenant, session); err != nil {
		return shown, 0, err
	}
	a := Action{Tenant: tenant, Session: session}
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return shown, 0, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if err = t.settle(ctx, a); err == nil {
		shown, err = s.show(ctx, tenant, session, t.state)
	}
	if err == nil {
		n, err = s.unmerged(ctx, t.state)
	}
	return shown, n, err
}

// Swept is what Sweep has removed.
type Swept struct{ Trees, Canvases int }

// Sweep removes the directories of trees that nothing has used for keep, and those of a day without commits that are
// nowhere else. It also removes canvases without such commits that nothing has used for keep, and what dropped ones have
// left. A directory with a change that a commit cannot have stays. Several processes may sweep at the same time.
func (s *Store) Sweep(ctx context.Context, keep time.Duration, now time.Time) (swept Swept, err error) {
	err = s.sweepScratch(now)
	all, lerr := s.canvases(ctx, keep)
	err = errors.Join(err, lerr)
	for _, c := range all {
		due := func(at time.Time) bool { return !at.IsZero() && now.After(at) }
		if !due(c.TreeGoesAt) && !due(c.GoesAt) {
			continue
		}
		done, serr := s.sweep(ctx, c, keep, due)
		err = errors.Join(err, serr)
		swept.Trees += done.Trees
		swept.Canvases += done.Canvases
	}
	n, derr := s.sweepDropped(ctx, keep, now)
	if swept.Canvases += n; swept.Canvases > 0 && err == nil {
		_, err = s.git(ctx, nil, "gc", "--quiet", "--prune=2.weeks.ago")
	}
	return swept, errors.Join(err, derr)
}

// sweepBusy is how long Sweep waits for a tree that a call uses.
const sweepBusy = time.Second

// sweep removes the tree and the canvas of a session as far as they are due, while no call uses them.
func (s *Store) sweep(ctx context.Context, c Canvas, keep time.Duration, due func(time.Time) bool) (swept Swept,
	err error) {
	waiting, cancel := context.WithTimeout(ctx, sweepBusy+beforeDeadline)
	defer cancel()
	if c.Tree != "" {
		removed, err := s.sweepTree(waiting, c, due)
		if err != nil || !removed {
			return swept, err
		}
		swept.Trees++
	}
	t, err := s.acquire(waiting, Action{Tenant: c.tenant, Session: c.Session})
	if err != nil {
		return swept, ignoreBusy(ctx, err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	now, err := s.canvas(ctx, c.tenant, c.Session, keep)
	if err != nil || now.Tree != "" || !due(now.GoesAt) {
		return swept, err
	}
	if err := t.withdraw(ctx); err != nil {
		return swept, err
	}
	swept.Canvases++
	return swept, s.forget(ctx, c.tenant, c.Session)
}

// ignoreBusy returns nil for the error of a tree that a call uses.
func ignoreBusy(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errBusy)) {
		return nil
	}
	return err
}

// sweepTree commits what has changed in a tree outside of calls, and removes its directory.
func (s *Store) sweepTree(ctx context.Context, c Canvas, due func(time.Time) bool) (removed bool, err error) {
	a := Action{Tenant: c.tenant, Session: c.Session}
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return false, ignoreBusy(ctx, err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := s.setUsed(c.tenant, c.Session, c.UsedAt); err != nil { // opening it was no use
		return false, err
	}
	if !due(c.TreeGoesAt) {
		return false, nil
	}
	ctx = t.locked(context.WithoutCancel(ctx))
	changes, skipped, x, err := t.changed(ctx)
	if err != nil || len(skipped) > 0 {
		return false, err
	}
	if _, skipped, err = t.commit(ctx, a, "what has changed outside of calls", changes, x); err != nil ||
		len(skipped) > 0 {
		return false, err
	}
	return true, s.removeTree(t.name)
}

// removeTree removes the directory of a tree.
func (s *Store) removeTree(name string) error {
	s.indexes.Remove(name)
	away, err := os.MkdirTemp(s.scratch(), "trash-")
	if err != nil {
		return err
	}
	err = os.Rename(s.treeDir(name), filepath.Join(away, "tree")) // what is left of the directory is no tree
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeAll(away), ignoreMissing(os.Remove(s.setupFile(name))))
}

// removeAll is os.RemoveAll, also of directories that commands have made read-only.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry,
		_ error) error { // what it cannot change stays an error below
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// forget removes all references of a session.
func (s *Store) forget(ctx context.Context, tenant, session string) error {
	out, err := s.git(ctx, nil, "for-each-ref", "--format=delete %(refname)", headRef(tenant, session),
		baseRef(tenant, session),
		strings.TrimSuffix(leftRefs(tenant, session), "/"), strings.TrimSuffix(asideRefs(tenant, session), "/"),
		strings.TrimSuffix(publishedRefs(tenant, session), "/"), trackRef(tenant, session))
	if err == nil {
		_, err = s.git(ctx, out, "update-ref", "--stdin")
	}
	if err == nil {
		_, err = s.gitIn(ctx, s.gitDir, nil, "update-ref", "-d", heldRef(tenant, session))
	}
	return errors.Join(err, ignoreMissing(os.Remove(s.heldFile(tenant, session))))
}

// sweepDropped removes what is left of the canvases that were dropped, and returns how many there were.
func (s *Store) sweepDropped(ctx context.Context, keep time.Duration, now time.Time) (n int, err error) {
	if keep <= 0 {
		return 0, nil
	}
	var names []string
	for _, prefix := range []string{"refs/everturn/left/", "refs/everturn/aside/", "refs/everturn/published/"} {
		some, err := s.sessions(ctx, prefix)
		if err != nil {
			return 0, err
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	for _, q := range slices.Compact(names) {
		tenant, session := unqualified(q)
		if _, begun, err := s.readState(ctx, tenant, session); err != nil || begun ||
			now.Before(s.usedAt(tenant, session).Add(keep)) {
			if err != nil {
				return n, err
			}
			continue
		}
		if err := s.forget(ctx, tenant, session); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sweepScratch removes what killed processes have left in the directory for scratch.
func (s *Store) sweepScratch(now time.Time) (err error) {
	entries, rerr := os.ReadDir(s.scratch())
	for _, e := range entries {
		if info, ierr := e.Info(); ierr == nil && now.Sub(info.ModTime()) > mergedKeep {
			err = errors.Join(err, removeAll(filepath.Join(s.scratch(), e.Name())))
		}
	}
	return errors.Join(rerr, err)
}
