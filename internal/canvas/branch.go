package canvas

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Summary describes a session's canvas. It lists at most 1,000 commits and 1,000 files.
type Summary struct {
	Branch  string   `json:"branch"`
	Head    string   `json:"head"`
	Base    string   `json:"base,omitempty"`
	Commits []Commit `json:"commits"` // newest first
	Files   []File   `json:"files"`   // the files that differ from Base
}

// Commit is one commit of a canvas.
type Commit struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Call    string    `json:"call,omitempty"` // TURN/CALL
}

// File is a file that the canvas changes. Added and Removed are numbers of lines, and 0 for a binary file.
type File struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary,omitempty"`
}

const (
	maxLog    = 1000
	maxListed = 1000
)

// emptyTree is the ID of the tree without files in repositories that use SHA-1.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// diffBase returns the object with which the canvas is compared: its base, or the tree without files if it began in a
// repository without commits.
func (s state) diffBase() string {
	if s.base == "" {
		return emptyTree
	}
	return s.base
}

// existingState returns the state of a session's canvas. The error is ErrNoCanvas if the canvas has no branch yet.
func (r *Repo) existingState(ctx context.Context, tenant, session string) (state, error) {
	s, begun, err := r.readState(ctx, tenant, session)
	if err == nil && !begun {
		err = ErrNoCanvas
	}
	return s, err
}

// Show returns the commits and changed files of a session's canvas.
func (r *Repo) Show(ctx context.Context, tenant, session string) (Summary, error) {
	s, err := r.existingState(ctx, tenant, session)
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Branch: r.Branch(tenant, session), Head: s.head, Base: s.base, Commits: []Commit{}, Files: []File{}}
	log, err := r.git(ctx, nil, "log", "-n", strconv.Itoa(maxLog), "-z",
		"--format=%H%x01%ct%x01%s%x01%(trailers:key="+trailerCall+",valueonly,separator=%x20)", s.revisions(), "--")
	if err != nil {
		return Summary{}, err
	}
	for _, line := range strings.Split(string(log), "\x00") {
		if f := strings.Split(line, "\x01"); len(f) == 4 {
			at, _ := strconv.ParseInt(f[1], 10, 64) // git writes a number
			out.Commits = append(out.Commits, Commit{f[0], time.Unix(at, 0).UTC(), f[2], f[3]})
		}
	}
	stat, err := r.git(ctx, nil, "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv",
		s.diffBase(), s.head)
	if err != nil {
		return Summary{}, err
	}
	for _, line := range strings.Split(string(stat), "\x00") {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 || len(out.Files) == maxListed {
			continue
		}
		added, err := strconv.Atoi(f[0])
		removed, _ := strconv.Atoi(f[1]) // "-" for a binary file
		out.Files = append(out.Files, File{f[2], added, removed, err != nil})
	}
	return out, nil
}

// List returns the paths of the files below a directory of the canvas, at most 1,000; cut reports whether there are
// more. An empty dir lists all files. If the session has no canvas yet, List lists the files of the repository's HEAD.
func (r *Repo) List(ctx context.Context, tenant, session, dir string) (paths []string, cut bool, err error) {
	s, _, err := r.readState(ctx, tenant, session)
	if err != nil || s.head == "" {
		return nil, false, err
	}
	args := []string{"ls-tree", "-r", "-z", "--name-only", s.head}
	if dir != "" && dir != "." {
		if dir, err = cleanPath(dir); err != nil {
			return nil, false, err
		}
		args = append(args, "--", dir+"/")
	}
	out, err := r.git(ctx, nil, args...)
	if err != nil {
		return nil, false, err
	}
	paths = strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
	return paths[:min(len(paths), maxListed)], len(paths) > maxListed, nil
}

// Diff returns the changes of the canvas as a unified diff. name selects one file; if it is empty, the diff has all
// files.
func (r *Repo) Diff(ctx context.Context, tenant, session, name string) (string, error) {
	s, err := r.existingState(ctx, tenant, session)
	if err != nil {
		return "", err
	}
	args := []string{"diff-tree", "-r", "-p", "--text", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv",
		s.diffBase(), s.head}
	if name != "" {
		if name, err = cleanPath(name); err != nil {
			return "", err
		}
		args = append(args, "--", name)
	}
	out, err := r.git(ctx, nil, args...)
	return hunkHeader.ReplaceAllString(string(out), "$1"), err
}

// hunkHeader matches the header of a hunk, in which git repeats the beginning of an earlier line. That could end within
// a secret, which would then be recognized no more. Other lines of a diff do not begin with @@.
var hunkHeader = regexp.MustCompile(`(?m)^(@@ -[0-9,]+ \+[0-9,]+ @@).*$`)

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

// MergeInput is the input of Merge. Action describes the call that merges; its Call is empty if a user merges by
// command.
type MergeInput struct {
	Action
	Into   string // the branch into which the canvas is merged
	Squash bool   // make one commit with one parent instead of a merge commit
	Title  string // of the commit's message
	// InWorkTree lets git update the files of a work tree that has the branch checked out. Only a user's own command may
	// set it.
	InWorkTree bool
}

// Merge merges the canvas into a branch and returns the ID of the new commit. The canvas then begins again at that
// commit, without changes of its own. If the call has merged before, Merge returns that commit and changes nothing. The
// error may be a *ConflictError or a *CheckedOutError.
func (r *Repo) Merge(ctx context.Context, in MergeInput) (string, error) {
	r.committing.Lock()
	defer r.committing.Unlock()
	s, err := r.existingState(ctx, in.Tenant, in.Session)
	if err != nil {
		return "", err
	}
	if in.Call != "" { // the call may have merged before a crash
		if done, err := r.commitOf(ctx, s, in.Action); err != nil || done != "" {
			return done, err
		}
	}
	if s.base == s.head {
		return "", errors.New("the canvas has nothing to merge")
	}
	target, err := r.targetCommit(ctx, in.Into)
	if err != nil {
		return "", err
	}
	dir, err := r.checkedOut(ctx, in.Into)
	if err != nil {
		return "", err
	}
	if dir != "" && !in.InWorkTree {
		return "", &CheckedOutError{in.Into, dir}
	}
	tree, err := r.mergedTree(ctx, in.Into, target, s.head)
	if err != nil {
		return "", err
	}
	// Without the trailer for the base, the new commit is the base of the canvas.
	message := in.message(in.Title, "")
	message = message[:strings.LastIndex(message, trailerBase)]
	args := []string{"commit-tree", tree, "-p", target}
	if !in.Squash {
		args = append(args, "-p", s.head)
	}
	commit, err := r.git(ctx, []byte(message), append(args, "-F", "-")...)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(commit))
	// Each update also names the old commit, so that git refuses it if the branch has moved meanwhile.
	refs := fmt.Sprintf("update %s %s %s\n", r.ref(in.Tenant, in.Session), id, s.head)
	if dir == "" { // otherwise git merge moves the branch, with the work tree
		refs += fmt.Sprintf("update refs/heads/%s %s %s\n", in.Into, id, target)
	} else if out, err := exec.CommandContext(ctx, "git", "-C", dir, "merge", "--ff-only", "--quiet", id).CombinedOutput(); err != nil {
		return "", fmt.Errorf("git merge in %s: %s", dir, strings.TrimSpace(string(out)))
	}
	if _, err := r.git(ctx, []byte(refs), "update-ref", "--stdin"); err != nil {
		return "", fmt.Errorf("a branch has moved meanwhile; try again: %w", err)
	}
	return id, nil
}

// targetCommit returns the last commit of the branch into which a canvas is merged. It refuses every branch with the
// name of a canvas.
func (r *Repo) targetCommit(ctx context.Context, into string) (string, error) {
	if strings.HasPrefix(into, branchPrefix) {
		return "", fmt.Errorf("branch %q is the canvas of a session; name a branch of yours", into)
	}
	if _, err := r.git(ctx, nil, "check-ref-format", "refs/heads/"+into); err != nil {
		return "", fmt.Errorf("%q is no name of a branch", into)
	}
	commit, err := r.firstLine(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+into+"^{commit}")
	var failed *gitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("there is no branch %q in %s", into, path.Base(r.dir))
	}
	return commit, err
}

// Current returns the name of the branch that is checked out in the repository's directory, or "" if there is none.
func (r *Repo) Current(ctx context.Context) string {
	name, err := r.firstLine(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return ""
	}
	return name
}

// checkedOut returns the directory of the work tree in which a branch is checked out, or "" if there is none.
func (r *Repo) checkedOut(ctx context.Context, branch string) (dir string, err error) {
	out, err := r.git(ctx, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return "", err
	}
	worktree := ""
	for _, line := range strings.Split(string(out), "\x00") {
		if name, ok := strings.CutPrefix(line, "worktree "); ok {
			worktree = name
		} else if line == "branch refs/heads/"+branch {
			return worktree, nil
		}
	}
	return "", nil
}

// mergedTree merges the commits target and head without a work tree and returns the ID of the resulting tree. The
// error is a *ConflictError for the branch into if they conflict.
func (r *Repo) mergedTree(ctx context.Context, into, target, head string) (string, error) {
	out, err := r.git(ctx, nil, "merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", target, head)
	parts := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	// The output is the tree's ID, followed by the paths with conflicts. Exit code 1 means that there are some.
	var failed *gitError
	if errors.As(err, &failed) && failed.code == 1 {
		return "", &ConflictError{into, parts[1:]}
	}
	return parts[0], err
}

// Drop deletes the branch of a session's canvas and returns what it had. Git removes the commits at a later garbage
// collection.
func (r *Repo) Drop(ctx context.Context, tenant, session string) (Summary, error) {
	s, err := r.Show(ctx, tenant, session)
	if err == nil {
		_, err = r.git(ctx, nil, "update-ref", "-d", r.ref(tenant, session), s.Head)
	}
	return s, err
}
