package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// ConflictError means that the canvas and the branch Into have changed the same lines of the files Paths.
type ConflictError struct {
	Into  string
	Paths []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the canvas conflicts with branch %s in %s", e.Into, strings.Join(e.Paths, ", "))
}

// CheckedOutError means that the branch Into is checked out in the work tree Dir, so that a merge would have to
// change files there.
type CheckedOutError struct{ Into, Dir string }

func (e *CheckedOutError) Error() string {
	return fmt.Sprintf("branch %s is checked out in %s; the user can merge there with `everturn canvas merge`, or name "+
		"another branch", e.Into, e.Dir)
}

// MovedError means that the canvas is not in the state that was shown before a merge.
type MovedError struct {
	Head  string
	Files []string // the files that a merge would bring
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("the canvas is not what was approved: its last commit is %s and it changes %s; look at the diff and "+
		"merge that", e.Head, strings.Join(e.Files, ", "))
}

// MergeInput is the input of Merge. Action describes the call that merges; its Call is empty if a user merges by
// command.
type MergeInput struct {
	Action
	// Commit and Files are what the canvas must have: its last commit, which may be abbreviated to ten digits, and the
	// files that it changes. An empty Commit permits any.
	Commit string
	Files  []string
	Into   string // the branch into which the canvas is merged
	Squash bool   // make one commit with one parent instead of a merge commit
	Title  string // of the commit's message; more text may follow its first line
	// ByUser means that a person merges by command: the commit has the author that git knows in the repository, and git
	// updates the files of a work tree that has the branch checked out. SignOff adds a line Signed-off-by.
	ByUser, SignOff bool
}

// minCommit is the minimum length of an abbreviated commit.
const minCommit = 10

// check returns a *MovedError if the canvas does not have the commit and the files that were shown before the call a.
// An empty commit permits any, and a user by command, whose Call is empty, need not name the files.
func (shown Summary) check(a Action, commit string, files []string) error {
	names := shown.paths()
	named := len(commit) >= minCommit && strings.HasPrefix(shown.Head, commit)
	if commit == "" || named && (a.Call == "" || slices.Equal(slices.Sorted(slices.Values(files)), names)) {
		return nil
	}
	return &MovedError{shown.Head, names}
}

// paths returns the paths of the files, in their order.
func (shown Summary) paths() []string {
	names := make([]string, len(shown.Files))
	for i, f := range shown.Files {
		names[i] = f.Path
	}
	return names
}

// Merge merges the canvas into a branch of the user's repository and returns the ID of the new commit. The canvas then
// begins again at that commit, without changes of its own. If the call has merged before, Merge returns that commit and
// changes nothing. The error may be a *MovedError, a *ConflictError or a *CheckedOutError.
func (s *Store) Merge(ctx context.Context, in MergeInput) (id string, err error) {
	if _, err := s.existingState(ctx, in.Tenant, in.Session); err != nil {
		return "", err
	}
	t, err := s.open(ctx, in.Action, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if in.Call != "" { // the call may have merged before a crash
		if done, err := s.commitOf(ctx, t.state, in.Action); err != nil || done != "" {
			return done, err
		}
	}
	if _, err := t.approved(ctx, in.Action, in.Commit, in.Files); err != nil {
		return "", err
	}
	target, dir, err := s.target(ctx, in)
	if err != nil {
		return "", err
	}
	if id, err = s.mergeCommit(ctx, in, target, t.state.head); err != nil {
		return "", err
	}
	if err := s.publish(ctx, id, target); err != nil {
		return "", err
	}
	u := unfinished{Action: in.Action, Follow: true, Merged: id, Into: in.Into}
	if err := s.mark(t.name, u); err != nil {
		return "", err
	}
	if err := s.moveTarget(ctx, in, dir, id, target); err != nil {
		return "", errors.Join(err, s.unmark(t.name))
	}
	return id, t.moveTo(ctx, in.Action, state{head: id, base: id}, leftRefs)
}

// approved returns the changes of the canvas, which are those that were shown before the call: see Summary.check.
func (t *tree) approved(ctx context.Context, a Action, commit string, files []string) (shown Summary, err error) {
	if err := t.settle(ctx, a); err != nil {
		return shown, err
	}
	if t.state.base == t.state.head {
		return shown, errors.New("the canvas has no changes")
	}
	if shown, err = t.store.show(ctx, a.Tenant, a.Session, t.state); err != nil {
		return shown, err
	}
	return shown, shown.check(a, commit, files)
}

// target returns the last commit of the branch into which a canvas is merged, and the work tree that has it checked
// out, if the input permits one. It refuses every branch with the name of a canvas.
func (s *Store) target(ctx context.Context, in MergeInput) (commit, dir string, err error) {
	if strings.HasPrefix(in.Into, branchPrefix) {
		return "", "", fmt.Errorf("branch %q is the canvas of a session; name a branch of yours", in.Into)
	}
	if _, err := s.git(ctx, nil, "check-ref-format", "refs/heads/"+in.Into); err != nil {
		return "", "", fmt.Errorf("%q is no name of a branch", in.Into)
	}
	commit, err = s.firstLineIn(ctx, s.gitDir, "rev-parse", "--verify", "--quiet", "refs/heads/"+in.Into+"^{commit}")
	if refused(err) {
		return "", "", fmt.Errorf("there is no branch %q in %s", in.Into, path.Base(s.repo))
	}
	if err != nil {
		return "", "", err
	}
	if dir, err = s.checkedOut(ctx, in.Into); err == nil && dir != "" && !in.ByUser {
		err = &CheckedOutError{in.Into, dir}
	}
	return commit, dir, err
}

// mergeCommit merges the commits target and head and returns the ID of the result's commit. With in.Squash its only
// parent is target. Its trailer says that the canvas begins again with this commit.
func (s *Store) mergeCommit(ctx context.Context, in MergeInput, target, head string) (string, error) {
	tree, err := s.mergedTree(ctx, in.Into, target, head)
	if err != nil {
		return "", err
	}
	args := []string{"--git-dir=" + s.store(), "commit-tree", tree, "-p", target}
	if !in.Squash {
		args = append(args, "-p", head)
	}
	by := gitCommand{dir: s.dir, timeout: gitTimeout}
	name, mail := author, email
	if in.ByUser {
		if name, mail, err = s.user(ctx); err != nil {
			return "", err
		}
		by.environ = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name,
			"GIT_COMMITTER_EMAIL=" + mail}
	}
	var trailers []string
	if in.SignOff {
		trailers = append(trailers, "Signed-off-by: "+name+" <"+mail+">")
	}
	var id bytes.Buffer
	message := strings.NewReader(in.message(in.Title, baseItself, trailers...))
	err = by.run(ctx, message, &id, append(args, "-F", "-")...)
	return strings.TrimSpace(id.String()), err
}

// user returns the author that git knows in the user's repository: of its configuration and of the environment. It is
// Everturn if there is none.
func (s *Store) user(ctx context.Context) (name, mail string, err error) {
	out, err := exec.CommandContext(ctx, "git", "-C", s.repo, "var", "GIT_AUTHOR_IDENT").Output()
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	name, rest, found := strings.Cut(string(out), " <")
	mail, _, closed := strings.Cut(rest, "> ")
	if err != nil || !found || !closed || name == "" {
		return author, email, nil
	}
	return name, mail, nil
}

// publish copies the commit id, with what it has beyond the commit have, into the user's repository.
func (s *Store) publish(ctx context.Context, id, have string) error {
	var pack bytes.Buffer
	revisions := strings.NewReader(id + "\n^" + have + "\n")
	if have == "" {
		revisions = strings.NewReader(id + "\n")
	}
	file, err := os.CreateTemp(s.scratch(), "pack-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // Sweep removes it later
	defer file.Close()
	err = run(ctx, s.dir, revisions, file, "--git-dir="+s.store(), "pack-objects", "--revs", "--stdout", "-q")
	if err == nil {
		_, err = file.Seek(0, 0)
	}
	if err == nil {
		err = run(ctx, s.dir, file, &pack, "--git-dir="+s.gitDir, "unpack-objects", "-q", "--strict")
	}
	return err
}

// moveTarget moves the branch of the user to a commit. If the branch is checked out in dir, git merges there as the
// user would. Otherwise git refuses to if the branch is not at the commit old any more.
func (s *Store) moveTarget(ctx context.Context, in MergeInput, dir, id, old string) error {
	if dir != "" {
		out, err := exec.CommandContext(ctx, "git", "-C", dir, "merge", "--ff-only", "--quiet", id).CombinedOutput()
		if err != nil {
			return fmt.Errorf("git merge in %s: %s", dir, strings.TrimSpace(string(out)))
		}
		_ = s.hold(ctx, in.Action, id) // the branch keeps it, too
		return nil
	}
	refs := fmt.Sprintf("update refs/heads/%s %s %s\nupdate %s %s\n", in.Into, id, old,
		heldRef(in.Tenant, in.Session), id)
	if _, err := s.gitIn(ctx, s.gitDir, []byte(refs), "update-ref", "--stdin"); err != nil {
		return fmt.Errorf("branch %s has moved meanwhile; try again: %w", in.Into, err)
	}
	return nil
}

// Current returns the name of the branch that is checked out in the folder of the user's repository, or "" if there is
// none.
func (s *Store) Current(ctx context.Context) string {
	name, err := s.firstLineIn(ctx, s.workGit, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return ""
	}
	return name
}

// checkedOut returns the directory of the work tree in which a branch is checked out, or "" if there is none.
func (s *Store) checkedOut(ctx context.Context, branch string) (dir string, err error) {
	var out bytes.Buffer
	if err := run(ctx, s.repo, nil, &out, "worktree", "list", "--porcelain", "-z"); err != nil {
		return "", err
	}
	worktree := ""
	for _, line := range strings.Split(out.String(), "\x00") {
		if name, ok := strings.CutPrefix(line, "worktree "); ok {
			worktree = name
		} else if line == "branch refs/heads/"+branch {
			return worktree, nil
		}
	}
	return "", nil
}

// isMerged reports whether the branch of the user has the commit of an interrupted merge.
func (s *Store) isMerged(ctx context.Context, u unfinished) bool {
	_, err := s.gitIn(ctx, s.gitDir, nil, "merge-base", "--is-ancestor", u.Merged, "refs/heads/"+u.Into)
	return err == nil
}
