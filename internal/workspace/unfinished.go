package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/everturn/everturn/internal/statedir"
)

// unfinished names the call that is changing a tree. Follow means that the call moves the branch first, and the tree
// follows: what then differs is the state before.
type unfinished struct {
	Action
	Follow bool `json:",omitempty"`
	// Merged is a commit that is the canvas's head once the user's branch Into has it.
	Merged, Into string `json:",omitempty"`
	// Report and Failed are those of a call whose commit could not be recorded: see Change.Report.
	Report string `json:",omitempty"`
	Failed bool   `json:",omitempty"`
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
	t.interrupted = &u
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
	aside.aside = t.asideRef()
	_, _, err := aside.commit(ctx, a, "what an interrupted call has left", changes, nil)
	return err
}
