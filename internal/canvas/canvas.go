package canvas

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// The author and committer of all commits.
const (
	author = "Everturn"
	email  = "everturn@localhost"
)

// MaxFile bounds a file on a canvas, in bytes.
const MaxFile = 4 << 20

// Errors that a caller may distinguish with errors.Is.
var (
	ErrNoCanvas = errors.New("the session has no canvas yet: it begins with its first change")
	ErrNoFile   = errors.New("there is no such file on the canvas")
	ErrTooLarge = fmt.Errorf("the file exceeds %d MiB, the maximum on a canvas", MaxFile>>20)
)

// Repo is a git repository that holds the canvases of sessions. It is safe for concurrent use by goroutines and by
// several processes.
type Repo struct {
	dir        string
	committing sync.Mutex
}

// branchPrefix begins the names of the branches of sessions, and distinguishes them from all others.
const branchPrefix = "everturn/"

// Open opens the git repository in dir.
func Open(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("canvas.repo: %w: create it with `git init %s`, or name another repository", err, dir)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("canvas.repo %s is not a folder", dir)
	}
	r := &Repo{dir: dir}
	gitDir, err := r.firstLine(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, fmt.Errorf("canvas.repo %s is not a git repository that this user owns: %w", dir, err)
	}
	common, err := r.firstLine(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	if !r.owns(gitDir, common) {
		return nil, fmt.Errorf("canvas.repo %s is not a work tree of %s, where its .git leads: name that repository", dir, gitDir)
	}
	return r, nil
}

// owns reports whether a git directory belongs to r.dir: it is in the folder with its common directory, objects and
// refs, or it names the folder as a work tree or submodule. An archive may come with a .git that leads to another
// repository of the user.
func (r *Repo) owns(gitDir, common string) bool {
	dir, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return false
	}
	inside := func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(dir, real)
		return err == nil && filepath.IsLocal(rel)
	}
	if inside(gitDir) {
		return inside(common) && inside(filepath.Join(common, "objects")) && inside(filepath.Join(common, "refs"))
	}
	back, err := os.ReadFile(filepath.Join(gitDir, "gitdir"))
	if err == nil { // of git worktree
		dotGit, err := filepath.EvalSymlinks(filepath.Dir(strings.TrimSpace(string(back))))
		return err == nil && dotGit == dir
	}
	config, err := os.ReadFile(filepath.Join(gitDir, "config"))
	worktree := regexp.MustCompile(`(?m)^\s*worktree = (.+)$`).FindSubmatch(config)
	if err != nil || worktree == nil {
		return false
	}
	tree, err := filepath.EvalSymlinks(filepath.Join(gitDir, string(worktree[1])))
	return err == nil && tree == dir
}

// Branch returns the name of the branch of a session's canvas. It escapes all characters but ASCII letters, digits, -
// and _ as %XX, because a session ID may contain characters that git refuses in the name of a branch.
func (r *Repo) Branch(tenant, session string) string {
	if tenant != "" {
		session = "tenant:" + tenant + "/" + session
	}
	var name strings.Builder
	for _, b := range []byte(session) {
		if b == '-' || b == '_' || b < unicode.MaxASCII && (unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))) {
			name.WriteByte(b)
		} else {
			fmt.Fprintf(&name, "%%%02X", b)
		}
	}
	return branchPrefix + name.String()
}

func (r *Repo) ref(tenant, session string) string { return "refs/heads/" + r.Branch(tenant, session) }

// Action identifies the call that changes a canvas. It is recorded in the commit's trailers.
type Action struct {
	Tenant, Session, Turn, Call, Tool, Model, ArgumentsHash string
	Step                                                    int
}

// The trailers that this package reads back. The base is the commit of the repository at which the canvas began.
const (
	trailerSession = "Everturn-Session"
	trailerCall    = "Everturn-Call" // TURN/CALL, which is unique
	trailerBase    = "Everturn-Base"
)

// message returns the message of a commit: the title and the trailers.
func (a Action) message(title, base string) string {
	session := a.Session
	if a.Tenant != "" {
		session = "tenant:" + a.Tenant + "/" + session
	}
	return fmt.Sprintf("%s\n\n%s: %s\nEverturn-Turn: %s\nEverturn-Step: %d\n%s: %s/%s\nEverturn-Tool: %s\n"+
		"Everturn-Model: %s\nEverturn-Arguments-Hash: %s\n%s: %s\n",
		oneLine(title, 100), trailerSession, oneLine(session, 1000), oneLine(a.Turn, 200), a.Step,
		trailerCall, oneLine(a.Turn, 200), oneLine(a.Call, 100), oneLine(a.Tool, 200),
		oneLine(a.Model, 200), a.ArgumentsHash, trailerBase, base)
}

// oneLine replaces control characters by spaces, and cuts s to most bytes and an ellipsis.
func oneLine(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// state is the position of a canvas: head is its last commit, base the commit of the repository at which it began. A
// canvas without commits has its base as head. Both are empty if the repository had no commits.
type state struct{ head, base string }

// objectID matches the ID of a git object. Anything else in a trailer could be an option of git.
var objectID = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// readState returns the state of a session's canvas. begun is false if the canvas has no branch yet; the state is
// then that of a canvas that would begin at the repository's HEAD.
func (r *Repo) readState(ctx context.Context, tenant, session string) (s state, begun bool, err error) {
	out, err := r.firstLine(ctx, "log", "-1", "--format=%H %(trailers:key="+trailerBase+",valueonly,separator=%x20)",
		r.ref(tenant, session), "--")
	if err == nil {
		s.head, s.base, _ = strings.Cut(out, " ")
		switch {
		case s.base == emptyBase:
			s.base = ""
		case !objectID.MatchString(s.base): // a merge commit of this package, or a commit that another program made
			s.base = s.head
		}
		return s, true, nil
	}
	var failed *gitError
	if !errors.As(err, &failed) {
		return s, false, err
	}
	s.head, err = r.firstLine(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if errors.As(err, &failed) { // a repository without commits
		s.head, err = "", nil
	}
	s.base = s.head
	return s, false, err
}

// emptyBase is the trailer's value for a canvas that began in a repository without commits.
const emptyBase = "none"

// entry is a file in a tree.
type entry struct{ mode, kind, object string }

// entries returns the tree entries of those paths that exist in the commit, by path. An empty commit has none.
func (r *Repo) entries(ctx context.Context, commit string, paths ...string) (map[string]entry, error) {
	found := map[string]entry{}
	if commit == "" {
		return found, nil
	}
	out, err := r.git(ctx, nil, append([]string{"ls-tree", "-z", commit, "--"}, paths...)...)
	for _, line := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		attributes, name, _ := strings.Cut(line, "\t")
		if f := strings.Fields(attributes); len(f) == 3 { // mode, kind and object
			found[name] = entry{f[0], f[1], f[2]}
		}
	}
	return found, err
}

// cleanPath checks the path of a file on a canvas and returns its shortest form.
func cleanPath(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || clean == "." || path.IsAbs(name) || strings.Contains(name, `\`) || len(name) > 1000 {
		return "", fmt.Errorf("path %q: give the path of a file relative to the repository, with forward slashes", name)
	}
	for _, part := range strings.Split(name, "/") {
		// Some file systems ignore case and dots or spaces at the end; git~1 is the short name of .git on Windows.
		lower := strings.ToLower(strings.TrimRight(part, ". "))
		if part == ".." || lower == ".git" || lower == "git~1" || lower == ".everturn" {
			return "", fmt.Errorf("path %q: .., .git and .everturn are out of a canvas's reach", name)
		}
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return "", fmt.Errorf("path %q: it has characters that are not printed", name)
		}
	}
	return clean, nil
}

// Read returns the content of a file on the session's canvas. If the session has no canvas yet, Read returns that of
// the repository's HEAD.
func (r *Repo) Read(ctx context.Context, tenant, session, name string) ([]byte, error) {
	name, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	s, _, err := r.readState(ctx, tenant, session)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, s.head, name)
}

// read returns the content of a file in a commit. It refuses links and files larger than MaxFile.
func (r *Repo) read(ctx context.Context, commit, name string) ([]byte, error) {
	found, err := r.entries(ctx, commit, name)
	if err != nil {
		return nil, err
	}
	e, ok := found[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", name, ErrNoFile)
	case e.kind != "blob" || e.mode == modeLink:
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	size, err := r.firstLine(ctx, "cat-file", "-s", e.object)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(size); err != nil || n > MaxFile {
		return nil, fmt.Errorf("%s: %w", name, ErrTooLarge)
	}
	return r.git(ctx, nil, "cat-file", "blob", e.object)
}

const (
	modeFile = "100644"
	modeLink = "120000"
)

// Change returns the new content of a file. old is its content so far; exists is false if there is no such file. If
// remove is true, the commit deletes the file, and text is ignored.
type Change func(old []byte, exists bool) (text []byte, remove bool, err error)

// maxRaces bounds how often Commit tries again because another process has moved or locked the branch.
const maxRaces = 50

// Commit changes the file name on the session's canvas and returns the ID of the commit. If the call a has already made
// a commit on the canvas, Commit returns that one and changes nothing. It calls change again if another process has
// moved the branch meanwhile.
func (r *Repo) Commit(ctx context.Context, a Action, title, name string, change Change) (string, error) {
	name, err := cleanPath(name)
	if err != nil {
		return "", err
	}
	r.committing.Lock()
	defer r.committing.Unlock()
	for range maxRaces {
		s, begun, err := r.readState(ctx, a.Tenant, a.Session)
		if err != nil {
			return "", err
		}
		if begun {
			if done, err := r.commitOf(ctx, s, a); err != nil || done != "" {
				return done, err
			}
		}
		commit, err := r.commitOnce(ctx, s, a, title, name, change)
		var failed *gitError
		killed := errors.As(err, &failed) && failed.code < 0 // by another process: it may or may not have committed
		if !killed && !errors.Is(err, errRace) {
			return commit, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("branch %s is locked or moves all the time", r.Branch(a.Tenant, a.Session))
}

// BeginAt begins the canvas of a subagent's session at the head of its caller's canvas. It does nothing if the caller
// has no canvas, or if the session has one already.
func (r *Repo) BeginAt(ctx context.Context, a Action, caller string) error {
	r.committing.Lock()
	defer r.committing.Unlock()
	if _, begun, err := r.readState(ctx, a.Tenant, a.Session); err != nil || begun {
		return err
	}
	from, begun, err := r.readState(ctx, a.Tenant, caller)
	if err != nil || !begun {
		return err
	}
	a.Call = "begin" // so that commitOf does not take it for a change by the call
	_, err = r.commitTree(ctx, a, "begin at the canvas of the caller", from.head+"^{tree}", from.head, "", from.head)
	if _, begun, serr := r.readState(ctx, a.Tenant, a.Session); serr == nil && begun {
		return nil // perhaps because another process was faster
	}
	return err
}

// commitTree commits a tree to the session's canvas and returns the ID of the commit. base is the value of the base
// trailer. old is the commit at which the branch must be; empty means that the branch must not exist.
func (r *Repo) commitTree(ctx context.Context, a Action, title, tree, base, old string, parents ...string) (string,
	error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	if err := r.checkUnused(ctx, a.Tenant, a.Session); err != nil {
		return "", err
	}
	out, err := r.git(ctx, []byte(a.message(title, base)), args...)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	_, err = r.git(ctx, nil, "update-ref", r.ref(a.Tenant, a.Session), id, cmp.Or(old, zeroID(id)))
	return id, err
}

// checkUnused returns an error if the branch of a session's canvas is checked out or leads to another branch. A commit
// would then change what is the user's.
func (r *Repo) checkUnused(ctx context.Context, tenant, session string) error {
	leads, err := r.firstLine(ctx, "for-each-ref", "--format=%(symref)%(worktreepath)", r.ref(tenant, session))
	if err == nil && leads != "" {
		err = fmt.Errorf("branch %s is checked out or leads to another branch (%s): check out another one, or delete it",
			r.Branch(tenant, session), leads)
	}
	return err
}

// zeroID returns the null object ID, in the length of id. git update-ref takes it to mean that a branch must not
// exist.
func zeroID(id string) string { return strings.Repeat("0", len(id)) }

// Take merges the canvas of the session from into the canvas of the session a.Session and returns the ID of the
// commit. If the call has already made a commit there, Take returns that one. The error may be a *ConflictError.
func (r *Repo) Take(ctx context.Context, a Action, from string) (string, error) {
	r.committing.Lock()
	defer r.committing.Unlock()
	other, err := r.existingState(ctx, a.Tenant, from)
	if err != nil {
		return "", err
	}
	s, begun, err := r.readState(ctx, a.Tenant, a.Session)
	if err != nil {
		return "", err
	}
	old := ""
	if begun {
		old = s.head
		if done, err := r.commitOf(ctx, s, a); err != nil || done != "" {
			return done, err
		}
	}
	tree, parents := other.head+"^{tree}", []string{other.head}
	if s.head != "" {
		if tree, err = r.mergedTree(ctx, r.Branch(a.Tenant, a.Session), s.head, other.head); err != nil {
			return "", err
		}
		parents = []string{s.head, other.head}
	}
	id, err := r.commitTree(ctx, a, "take what "+from+" has changed", tree, cmp.Or(s.base, emptyBase), old, parents...)
	if err != nil {
		return "", fmt.Errorf("the branch has moved meanwhile; try again: %w", err)
	}
	return id, nil
}

// commitOf returns the ID of the commit that the call a has already made on the canvas, or "" if there is none.
func (r *Repo) commitOf(ctx context.Context, s state, a Action) (string, error) {
	name := regexp.QuoteMeta(oneLine(a.Turn, 200) + "/" + oneLine(a.Call, 100))
	return r.firstLine(ctx, "log", "-1", "--extended-regexp", "--grep=^"+trailerCall+": "+name+"$", "--format=%H", s.revisions(),
		"--")
}

// revisions returns the commits of the canvas in the form of an argument of git log.
func (s state) revisions() string {
	switch s.base {
	case "":
		return s.head
	case s.head: // only the head itself, for instance a merge commit of this package
		return s.head + "^!"
	}
	return s.base + ".." + s.head
}

var errRace = errors.New("the branch has moved")

// commitOnce tries once to commit the change of one file. s is the state of the canvas. commitOnce returns errRace if
// the branch has moved since s was read, or if another git process holds its lock.
func (r *Repo) commitOnce(ctx context.Context, s state, a Action, title, name string, change Change) (string, error) {
	paths := []string{name} // the file and its parent directories
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		paths = append(paths, dir)
	}
	found, err := r.entries(ctx, s.head, paths...)
	if err != nil {
		return "", err
	}
	for _, dir := range paths[1:] {
		if e, ok := found[dir]; ok && e.kind != "tree" {
			return "", fmt.Errorf("%s is a file, not a directory", dir)
		}
	}
	e, exists := found[name]
	var old []byte
	if exists {
		if old, err = r.read(ctx, s.head, name); err != nil {
			return "", err
		}
	}
	text, remove, err := change(old, exists)
	switch {
	case err != nil:
		return "", err
	case len(text) > MaxFile:
		return "", fmt.Errorf("%s: %w", name, ErrTooLarge)
	case !remove && exists && bytes.Equal(text, old):
		return "", fmt.Errorf("%s has this content already", name)
	}
	base := s.base
	if base == "" {
		base = emptyBase
	}
	if e.mode == "" {
		e.mode = modeFile
	}
	if err := r.checkUnused(ctx, a.Tenant, a.Session); err != nil {
		return "", err
	}
	ref := r.ref(a.Tenant, a.Session)
	message := a.message(title, base)
	// The input of git fast-import: one commit, whose ID get-mark then prints.
	var in bytes.Buffer
	fmt.Fprintf(&in, "feature done\ncommit %s\nmark :1\ncommitter %s <%s> %d +0000\ndata %d\n%s\n", ref, author, email,
		time.Now().Unix(), len(message), message)
	if s.head != "" {
		fmt.Fprintf(&in, "from %s\n", s.head)
	}
	if remove {
		fmt.Fprintf(&in, "D %s\n", quote(name))
	} else {
		fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", e.mode, quote(name), len(text), text)
	}
	in.WriteString("get-mark :1\ndone\n")
	out, err := r.git(ctx, in.Bytes(), "fast-import", "--quiet", "--date-format=raw")
	var failed *gitError
	if errors.As(err, &failed) && (strings.Contains(failed.message, "does not contain") ||
		strings.Contains(failed.message, "cannot lock ref") || strings.Contains(failed.message, ".lock")) {
		r.removeStaleLock(ref)
		return "", errRace
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// quote returns a path as a C-style string, as git fast-import reads it.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// staleLock is the age from which the lock of a branch counts as left behind by a killed git. A running git holds it
// for milliseconds.
const staleLock = 10 * time.Second

// removeStaleLock removes the lock of a branch if a killed git has left it behind.
func (r *Repo) removeStaleLock(ref string) {
	lock, err := r.firstLine(context.Background(), "rev-parse", "--path-format=absolute", "--git-path", ref+".lock")
	if err != nil {
		return
	}
	if info, err := os.Lstat(lock); err == nil && time.Since(info.ModTime()) > staleLock {
		_ = os.Remove(lock) // if it fails, the next try meets the lock again
	}
}
