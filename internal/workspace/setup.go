package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/statedir"
)

// Setup is how the command that prepares a new tree has ended.
type Setup struct {
	Command string    `json:"command"`
	At      time.Time `json:"at"`
	// Problem says why the command failed, and is empty if it succeeded.
	Problem string `json:"problem,omitempty"`
	Output  string `json:"output"`
}

// setupTool is the tool in the trailers of the commit of a setup.
const setupTool = "workspace.setup"

func (s *Store) setupFile(name string) string { return filepath.Join(s.dir, "setups", name) }

// SetUp prepares the tree of a session once: it calls run with the directory of the tree, and commits what run has
// changed as a commit of its own. done is false if the tree is prepared already. If the process is killed before the
// end, what run had changed is kept under a reference, and the next SetUp calls run again. A setup with a problem is not
// repeated. After an error of run, the tree is not prepared.
//
// users reports whether the content of the tree is the user's own: no agent has made the commit at which it begins.
func (s *Store) SetUp(ctx context.Context, a Action, origin Begins,
	run func(dir string, users bool) (Setup, error)) (did Setup, res Result, done bool, err error) {
	row, err := s.row(ctx, a)
	if err != nil {
		return did, res, false, err
	}
	name := treeName(a.Tenant, a.Session, row.Epoch)
	if _, err := os.Lstat(s.setupFile(name)); err == nil {
		if _, err := os.Lstat(s.treeDir(name)); err == nil {
			return did, res, false, nil
		}
	}
	a.Tool, a.Call, a.ArgumentsHash = setupTool, "", ""
	t, err := s.open(ctx, a, origin)
	if err != nil {
		return did, res, false, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx, name = t.locked(ctx), t.name
	res.Made = t.made
	if _, err := os.Lstat(s.setupFile(name)); err == nil { // another process was faster
		return did, res, false, nil
	}
	if err := t.settle(ctx, a); err != nil {
		return did, res, false, err
	}
	before, err := t.setUpBefore(ctx, a)
	if err == nil && before {
		err = s.writeSetup(name, Setup{At: time.Now()})
	}
	if err != nil || before {
		return did, res, false, err
	}
	users, err := s.isUsers(ctx, t.state.head)
	if err == nil {
		err = s.mark(name, unfinished{Action: a, Follow: true})
	}
	if err != nil {
		return did, res, false, err
	}
	did, err = run(s.treeDir(name), users)
	ctx = context.WithoutCancel(ctx)
	changes, skipped, x, cerr := t.changed(ctx)
	if err = errors.Join(err, cerr); err != nil {
		return did, res, false, err
	}
	res.Commit, res.Skipped, err = t.commit(ctx, a, "setup", changes, x)
	res.Skipped = append(skipped, res.Skipped...)
	for _, c := range changes {
		res.Files = append(res.Files, c.path)
	}
	if err == nil {
		err = s.writeSetup(name, did)
	}
	if err != nil {
		return did, res, false, fmt.Errorf("ending the setup of the tree: %w", err)
	}
	return did, res, true, s.unmark(name)
}

// setUpBefore reports whether the tree's setup was interrupted after its commit, which is the last one: the process was
// killed, or the commit could not be recorded at once.
func (t *tree) setUpBefore(ctx context.Context, a Action) (bool, error) {
	if t.made.New || t.state.head == "" || t.interrupted == nil || t.interrupted.Tool != setupTool {
		return false, nil
	}
	out, err := t.store.git(ctx, nil, "log", "-1", "--format=%(trailers:key=Everturn-Tool,valueonly,separator=)%x00"+
		"%(trailers:key="+trailerSession+",valueonly,separator=)", t.state.head, "--")
	tool, session, _ := strings.Cut(strings.TrimSpace(string(out)), "\x00")
	return tool == setupTool && session == oneLine(qualified(a.Tenant, a.Session), 1000), err
}

// writeSetup records that a tree is prepared.
func (s *Store) writeSetup(name string, did Setup) error {
	b, err := json.Marshal(did)
	if err != nil {
		return err
	}
	return statedir.Replace(s.setupFile(name), string(b))
}

// setupOf returns how the setup of a tree has ended, or nil if it has not run.
func (s *Store) setupOf(name string) (*Setup, error) {
	b, err := os.ReadFile(s.setupFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	var did Setup
	if err == nil {
		err = json.Unmarshal(b, &did)
	}
	return &did, err
}

// withChanges is the tool in the trailers of the commit of TakeUserChanges.
const withChanges = "everturn run --with-changes"

// isUsers reports whether a commit is the user's own: the user's repository has it, which gets commits of agents only
// by merges, or it consists of the user's changes to such a commit, or of those that a setup there has made.
func (s *Store) isUsers(ctx context.Context, commit string) (bool, error) {
	for commit != "" {
		_, err := s.gitIn(ctx, s.gitDir, nil, "cat-file", "-e", commit)
		if !refused(err) {
			return err == nil, err
		}
		out, err := s.git(ctx, nil, "log", "-1", "--format=%P%x00%(trailers:key=Everturn-Tool,valueonly,separator=)", commit,
			"--")
		if err != nil {
			return false, err
		}
		parent, tool, _ := strings.Cut(strings.TrimSpace(string(out)), "\x00")
		if tool != withChanges && tool != setupTool {
			return false, nil
		}
		commit = parent
	}
	return true, nil
}
