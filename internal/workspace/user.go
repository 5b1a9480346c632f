package workspace

import (
	"context"
	"errors"
	"os"
)

// UserChanges returns the paths of the user's files that differ from the commit that is checked out. It reads them as
// they are: git runs neither filters nor a file system monitor for it.
func (s *Store) UserChanges(ctx context.Context) ([]string, error) {
	head, err := s.repoHead(ctx)
	if err != nil || s.bare() {
		return nil, err
	}
	changes, _, err := s.userChanges(ctx, head)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.path)
	}
	return names, nil
}

// userChanges returns the user's files that differ from a commit, and those that cannot be read.
func (s *Store) userChanges(ctx context.Context, commit string) ([]change, []Skipped, error) {
	files, err := s.list(ctx, commit)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.Open(s.repo)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	found, err := s.scan(ctx, root, newIndex(commit, files))
	if err != nil {
		return nil, nil, err
	}
	t := &tree{store: s, root: root, state: state{head: commit, base: commit}}
	changes, skipped, err := t.admit(ctx, found.changes)
	return changes, append(found.skipped, skipped...), err
}

// bare reports whether the user's repository has no work tree.
func (s *Store) bare() bool {
	_, err := os.Lstat(s.repo + "/.git")
	return err != nil
}

// TakeUserChanges begins the canvas of a session with what the user has changed and not committed, as its first commit.
func (s *Store) TakeUserChanges(ctx context.Context, a Action) (res Result, err error) {
	if s.bare() {
		return res, errors.New("the repository is a bare one: it has no files that are not committed")
	}
	a.Tool = withChanges
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if t.state.head != t.state.base {
		return res, errors.New("the session has changed files already")
	}
	var changes []change
	if changes, res.Skipped, err = s.userChanges(ctx, t.state.head); err != nil {
		return res, err
	}
	root, err := os.Open(s.repo)
	if err != nil {
		return res, err
	}
	defer root.Close()
	user := *t
	user.root = root
	if err := s.mark(t.name, unfinished{Action: a, Follow: true}); err != nil {
		return res, err
	}
	var left []Skipped
	if res.Commit, left, err = user.commit(ctx, a, "changes of the user", changes, nil); err != nil {
		return res, err
	}
	res.Skipped = append(res.Skipped, left...)
	t.state = user.state
	return res, t.follow(ctx)
}
