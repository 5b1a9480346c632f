package workspace

import (
	"context"
	"errors"
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
	Tree    string   `json:"tree"`    // the directory of the tree
	Commits []Commit `json:"commits"` // newest first
	Files   []File   `json:"files"`   // the files that differ from Base
	Setup   *Setup   `json:"setup,omitempty"`
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

// The IDs of the git tree without files.
const (
	emptyTree       = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTreeSHA256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// diffBase returns the object with which the canvas is compared: its base, or the tree without files if it began in a
// repository without commits.
func (s *Store) diffBase(st state) string {
	switch {
	case st.base != "":
		return st.base
	case s.sha256:
		return emptyTreeSHA256
	}
	return emptyTree
}

// Show returns the commits and changed files of a session's canvas.
func (s *Store) Show(ctx context.Context, tenant, session string) (Summary, error) {
	st, err := s.existingState(ctx, tenant, session)
	if err != nil {
		return Summary{}, err
	}
	shown, err := s.show(ctx, tenant, session, st)
	if err == nil {
		shown.Setup, err = s.setupOf(s.nameHere(tenant, session))
	}
	return shown, err
}

// show is Show of a canvas in this state.
func (s *Store) show(ctx context.Context, tenant, session string, st state) (Summary, error) {
	out := Summary{Branch: Branch(tenant, session), Head: st.head, Base: st.base, Tree: s.Path(tenant, session),
		Commits: []Commit{}, Files: []File{}}
	if st.head == st.base {
		return out, nil
	}
	log, err := s.git(ctx, nil, "log", "-n", strconv.Itoa(maxLog), "-z",
		"--format=%H%x01%ct%x01%s%x01%(trailers:key="+trailerCall+",valueonly,separator=%x20)", st.revisions(), "--")
	if err != nil {
		return Summary{}, err
	}
	for _, line := range strings.Split(string(log), "\x00") {
		if f := strings.Split(line, "\x01"); len(f) == 4 {
			at, _ := strconv.ParseInt(f[1], 10, 64) // git writes a number
			out.Commits = append(out.Commits, Commit{f[0], time.Unix(at, 0).UTC(), f[2], f[3]})
		}
	}
	stat, err := s.git(ctx, nil, "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv",
		s.diffBase(st), st.head)
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

// Has returns a function that reports whether the last commit of a session's canvas has a file.
func (s *Store) Has(ctx context.Context, tenant, session string) (func(path string) bool, error) {
	st, err := s.existingState(ctx, tenant, session)
	if errors.Is(err, ErrNoCanvas) { // the repository had no commits when it began
		return func(string) bool { return false }, nil
	}
	if err != nil {
		return nil, err
	}
	x, err := s.indexOf(ctx, s.nameHere(tenant, session), st.head)
	if err != nil {
		return nil, err
	}
	return func(path string) bool { _, ok := x.files[path]; return ok }, nil
}

// ChangedBy returns the paths of the files that a commit changes, compared with its first parent.
func (s *Store) ChangedBy(ctx context.Context, commit string) ([]string, error) {
	parent, err := s.firstLine(ctx, "rev-parse", "--verify", "--quiet", commit+"^1")
	if refused(err) {
		parent, err = s.diffBase(state{}), nil
	}
	if err != nil {
		return nil, err
	}
	out, err := s.git(ctx, nil, "diff-tree", "-r", "-z", "--name-only", "--no-renames", parent, commit)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), err
}

// Diff returns the changes of the canvas as a unified diff, and its last commit. name selects one file; if it is empty,
// the diff has all files.
func (s *Store) Diff(ctx context.Context, tenant, session, name string) (text, head string, err error) {
	st, err := s.existingState(ctx, tenant, session)
	if err != nil {
		return "", "", err
	}
	args := []string{"diff-tree", "-r", "-p", "--text", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv",
		s.diffBase(st), st.head}
	if name != "" {
		if name, err = cleanPath(name); err != nil {
			return "", "", err
		}
		args = append(args, "--", name)
	}
	out, err := s.git(ctx, nil, args...)
	return hunkHeader.ReplaceAllString(string(out), "$1"), st.head, err
}

// hunkHeader matches the header of a hunk, in which git repeats the beginning of an earlier line. That could end within
// a secret, which would then be recognized no more. Other lines of a diff do not begin with @@.
var hunkHeader = regexp.MustCompile(`(?m)^(@@ -[0-9,]+ \+[0-9,]+ @@).*$`)
