package workspace

import (
	"context"
	"errors"
	"strings"
)

// settle commits what has changed in the tree outside of calls, for instance by a command in the background.
func (t *tree) settle(ctx context.Context, a Action) error {
	if err := t.commitJobs(ctx); err != nil {
		return err
	}
	changes, _, x, err := t.changed(ctx)
	if err != nil || len(changes) == 0 {
		return err
	}
	a.Call, a.Tool = "", "" // it is no change by this call
	_, _, err = t.commit(ctx, a, "what has changed outside of calls", changes, x)
	return err
}

// moveTo moves the canvas to another state, and its tree, which must be settled, with it. The branch's head is kept
// under one of the references refs, unless it is an ancestor of the new one.
func (t *tree) moveTo(ctx context.Context, a Action, to state, refs func(tenant, session string) string) error {
	s := t.store
	if err := s.leave(ctx, refs(a.Tenant, a.Session), t.state.head, to.head); err != nil {
		return err
	}
	if err := t.record(ctx, to, false); err != nil {
		return err
	}
	return t.follow(ctx)
}

// leave keeps a commit under a reference that begins with refs, if it is not an ancestor of the commit to.
func (s *Store) leave(ctx context.Context, refs, head, to string) error {
	if head == "" {
		return nil
	}
	var err error
	if to != "" {
		_, err = s.git(ctx, nil, "merge-base", "--is-ancestor", head, to)
	}
	var failed *gitError
	if to == "" || errors.As(err, &failed) && failed.code == 1 {
		_, err = s.git(ctx, nil, "update-ref", refs+head[:16], head)
	}
	return err
}

// follow gives the tree the content of its branch's head.
func (t *tree) follow(ctx context.Context) error {
	changes, _, x, err := t.changed(ctx)
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(changes))
	for _, c := range changes {
		paths = append(paths, c.path)
	}
	if err := t.store.restore(ctx, t.root, x, paths); err != nil {
		return err
	}
	return t.store.unmark(t.name)
}

// Take merges the canvas of the session from into the canvas of the session a.Session and returns the ID of the
// commit. If the call has already made a commit there, Take returns that one. The error may be a *ConflictError.
func (s *Store) Take(ctx context.Context, a Action, origin Begins, from string) (id string, err error) {
	other, err := s.existingState(ctx, a.Tenant, from)
	if err != nil {
		return "", err
	}
	t, err := s.open(ctx, a, origin)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if done, err := s.commitOf(ctx, t.state, a); err != nil || done != "" {
		return done, err
	}
	if err := t.settle(ctx, a); err != nil {
		return "", err
	}
	tree, parents := other.head+"^{tree}", []string{"-p", other.head}
	if t.state.head != "" {
		if tree, err = s.mergedTree(ctx, Branch(a.Tenant, a.Session), t.state.head, other.head); err != nil {
			return "", err
		}
		parents = []string{"-p", t.state.head, "-p", other.head}
	}
	out, err := s.git(ctx, []byte(a.message("take the changes of "+from, t.state.base)),
		append([]string{"commit-tree", tree, "-F", "-"}, parents...)...)
	if err != nil {
		return "", err
	}
	id = strings.TrimSpace(string(out))
	if err := s.mark(t.name, unfinished{Action: a, Follow: true}); err != nil {
		return "", err
	}
	return id, t.moveTo(ctx, a, state{head: id, base: t.state.base}, leftRefs)
}

// Drop deletes the canvas of a session and returns what it had. The store keeps the commits until Sweep removes them.
func (s *Store) Drop(ctx context.Context, tenant, session string) (shown Summary, err error) {
	if _, err := s.existingState(ctx, tenant, session); err != nil {
		return shown, err
	}
	a := Action{Tenant: tenant, Session: session}
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return shown, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if err = t.settle(ctx, a); err == nil {
		shown, err = s.show(ctx, tenant, session, t.state)
	}
	if err == nil {
		err = t.withdraw(ctx)
	}
	if err == nil {
		err = s.removeTree(t.name)
	}
	if err == nil {
		err = t.unlink(ctx)
	}
	return shown, err
}

// withdraw deletes the session's reference at the remote and its tree in the journal.
func (t *tree) withdraw(ctx context.Context) error {
	j := t.store.o.journal()
	if err := t.push(ctx, ""); err != nil || j == nil || t.row.Place == "" {
		return err
	}
	return j.DropTree(ctx, t.action.Tenant, t.action.Session, t.row.Epoch)
}

// mergedTree merges the commits target and head without a work tree and returns the ID of the resulting tree. The error
// is a *ConflictError for the branch into if they conflict. The configuration of the store names no merge drivers.
func (s *Store) mergedTree(ctx context.Context, into, target, head string) (string, error) {
	out, err := s.git(ctx, nil, "merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", target, head)
	parts := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	// The output is the tree's ID, followed by the paths with conflicts. Exit code 1 means that there are some.
	var failed *gitError
	if errors.As(err, &failed) && failed.code == 1 {
		return "", &ConflictError{into, parts[1:]}
	}
	return parts[0], err
}
