package canvas

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"
)

// Summary is what a session's canvas has. It lists at most 1,000 commits and files.
type Summary struct {
	Branch  string   `json:"branch"`
	Head    string   `json:"head"`
	Base    string   `json:"base,omitempty"`
	Commits []Commit `json:"commits"` // the newest first
	Files   []File   `json:"files"`
}

// Commit is one change.
type Commit struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Call    string    `json:"call,omitempty"` // TURN/CALL
}

// File is a file that the canvas changes. Binary files have no numbers of lines.
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

// emptyTree is the object of the tree without files, in repositories with SHA-1.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

func (s state) from() string {
	if s.base == "" {
		return emptyTree
	}
	return s.base
}

// begun returns the state of a canvas that has a branch. The error is ErrNoCanvas if it has none.
func (r *Repo) begun(ctx context.Context, tenant, session string) (state, error) {
	s, begun, err := r.state(ctx, tenant, session)
	if err == nil && !begun {
		err = ErrNoCanvas
	}
	return s, err
}

// Show returns what a session's canvas has.
func (r *Repo) Show(ctx context.Context, tenant, session string) (Summary, error) {
	s, err := r.begun(ctx, tenant, session)
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Branch: r.Branch(tenant, session), Head: s.head, Base: s.base, Commits: []Commit{}, Files: []File{}}
	log, err := r.git(ctx, nil, "log", "-n", strconv.Itoa(maxLog), "-z",
		"--format=%H%x01%ct%x01%s%x01%(trailers:key="+trailerCall+",valueonly,separator=%x20)", s.span(), "--")
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
		s.from(), s.head)
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

// List returns the paths of the files below a directory of the canvas, at most 1,000.
func (r *Repo) List(ctx context.Context, tenant, session, dir string) (paths []string, cut bool, err error) {
	s, _, err := r.state(ctx, tenant, session)
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

// Diff returns the changes of the canvas as a unified diff, of one file or of all.
func (r *Repo) Diff(ctx context.Context, tenant, session, name string) (string, error) {
	s, err := r.begun(ctx, tenant, session)
	if err != nil {
		return "", err
	}
	args := []string{"diff-tree", "-r", "-p", "--text", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv",
		s.from(), s.head}
	if name != "" {
		if name, err = cleanPath(name); err != nil {
			return "", err
		}
		args = append(args, "--", name)
	}
	out, err := r.git(ctx, nil, args...)
	return string(out), err
}

// ConflictError says that the canvas and another branch have changed the same lines.
type ConflictError struct {
	Into  string
	Paths []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the canvas conflicts with branch %s in %s", e.Into, strings.Join(e.Paths, ", "))
}

// CheckedOutError says that a branch is checked out in a work tree, whose files a merge would have to change.
type CheckedOutError struct{ Into, Dir string }

func (e *CheckedOutError) Error() string {
	return fmt.Sprintf("branch %s is checked out in %s; the user can merge there with `everturn canvas merge`, or name "+
		"another branch", e.Into, e.Dir)
}

// MergeInput says how a canvas is merged.
type MergeInput struct {
	Action
	Into   string // a branch
	Squash bool   // one commit with one parent instead of a merge
	Title  string
	// InWorkTree lets git update the files of a work tree that has the branch checked out. Only a user may want that.
	InWorkTree bool
}

// Merge merges the canvas into a branch and returns the new commit. The canvas then begins there. The error may be a
// *ConflictError or a *CheckedOutError.
func (r *Repo) Merge(ctx context.Context, in MergeInput) (string, error) {
	r.committing.Lock()
	defer r.committing.Unlock()
	s, err := r.begun(ctx, in.Tenant, in.Session)
	if err != nil {
		return "", err
	}
	if in.Call != "" {
		if done, err := r.made(ctx, s, in.Action); err != nil || done != "" {
			return done, err
		}
	}
	if s.base == s.head {
		return "", errors.New("the canvas has nothing to merge")
	}
	target, err := r.target(ctx, in.Into)
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
	refs := fmt.Sprintf("update %s %s %s\n", r.ref(in.Tenant, in.Session), id, s.head)
	if dir == "" {
		refs += fmt.Sprintf("update refs/heads/%s %s %s\n", in.Into, id, target)
	} else if out, err := exec.CommandContext(ctx, "git", "-C", dir, "merge", "--ff-only", "--quiet", id).CombinedOutput(); err != nil {
		return "", fmt.Errorf("git merge in %s: %s", dir, strings.TrimSpace(string(out)))
	}
	if _, err := r.git(ctx, []byte(refs), "update-ref", "--stdin"); err != nil {
		return "", fmt.Errorf("a branch has moved meanwhile; try again: %w", err)
	}
	return id, nil
}

// target returns the commit of the branch that a canvas is merged into, which must not be a canvas.
func (r *Repo) target(ctx context.Context, into string) (string, error) {
	before, after, _ := strings.Cut(r.branch, sessionMark)
	if strings.HasPrefix(into, before) && strings.HasSuffix(into, after) {
		return "", fmt.Errorf("branch %q is the canvas of a session; name a branch of yours", into)
	}
	if _, err := r.git(ctx, nil, "check-ref-format", "refs/heads/"+into); err != nil {
		return "", fmt.Errorf("%q is no name of a branch", into)
	}
	commit, err := r.line(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+into+"^{commit}")
	var failed *gitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("there is no branch %q in %s", into, path.Base(r.dir))
	}
	return commit, err
}

// Current returns the branch that is checked out in the repository's directory; empty if none is.
func (r *Repo) Current(ctx context.Context) string {
	name, err := r.line(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return ""
	}
	return name
}

// checkedOut returns the work tree in which a branch is checked out; empty if there is none.
func (r *Repo) checkedOut(ctx context.Context, branch string) (dir string, err error) {
	out, err := r.git(ctx, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return "", err
	}
	at := ""
	for _, line := range strings.Split(string(out), "\x00") {
		if name, ok := strings.CutPrefix(line, "worktree "); ok {
			at = name
		} else if line == "branch refs/heads/"+branch {
			return at, nil
		}
	}
	return "", nil
}

// mergedTree merges two commits without a work tree.
func (r *Repo) mergedTree(ctx context.Context, into, target, head string) (string, error) {
	out, err := r.git(ctx, nil, "merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", target, head)
	parts := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	var failed *gitError
	if errors.As(err, &failed) && failed.code == 1 {
		return "", &ConflictError{into, parts[1:]}
	}
	return parts[0], err
}

// Drop deletes the branch of a session's canvas. Its commits are lost when git collects garbage.
func (r *Repo) Drop(ctx context.Context, tenant, session string) (Summary, error) {
	s, err := r.Show(ctx, tenant, session)
	if err == nil {
		_, err = r.git(ctx, nil, "update-ref", "-d", r.ref(tenant, session), s.Head)
	}
	return s, err
}
