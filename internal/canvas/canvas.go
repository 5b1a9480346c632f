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

// The author of the commits.
const (
	author = "Everturn"
	email  = "everturn@localhost"
)

// MaxFile bounds a file on a canvas, in bytes.
const MaxFile = 4 << 20

// Errors that a model or a user can do something about.
var (
	ErrNoCanvas = errors.New("the session has no canvas yet: it begins with its first change")
	ErrNoFile   = errors.New("there is no such file on the canvas")
	ErrTooLarge = fmt.Errorf("the file exceeds %d MiB, the maximum on a canvas", MaxFile>>20)
)

// Repo is a git repository with the canvases of sessions. It is safe for concurrent use, also by several processes.
type Repo struct {
	dir, branch string
	committing  sync.Mutex
}

// sessionMark stands for the session in the name of a branch.
const sessionMark = "<session>"

// Open returns the repository in a directory. branch is the name of a session's branch, with <session> in it.
func Open(ctx context.Context, dir, branch string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if strings.Count(branch, sessionMark) != 1 {
		return nil, fmt.Errorf("canvas.branch %q must contain %s once", branch, sessionMark)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("canvas.repo: %w: create it with `git init %s`, or name another repository", err, dir)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("canvas.repo %s is not a folder", dir)
	}
	r := &Repo{dir: dir, branch: branch}
	if _, err := r.git(ctx, nil, "check-ref-format", "--branch", r.Branch("", "session")); err != nil {
		return nil, fmt.Errorf("canvas.branch %q is no name of a branch: %w", branch, err)
	}
	if _, err := r.git(ctx, nil, "rev-parse", "--git-dir"); err != nil {
		return nil, fmt.Errorf("canvas.repo %s is not a git repository that this user owns: %w", dir, err)
	}
	return r, nil
}

// Branch returns the name of a session's branch. Names of sessions may contain what names of branches must not.
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
	return strings.ReplaceAll(r.branch, sessionMark, name.String())
}

func (r *Repo) ref(tenant, session string) string { return "refs/heads/" + r.Branch(tenant, session) }

// Action is a call that changes a canvas.
type Action struct {
	Tenant, Session, Turn, Call, Tool, Model, ArgumentsHash string
	Step                                                    int
}

// The trailers of a commit. The base is the commit of the repository that the canvas began with.
const (
	trailerSession = "Everturn-Session"
	trailerCall    = "Everturn-Call" // TURN/CALL, which is unique
	trailerBase    = "Everturn-Base"
)

func (a Action) message(title, base string) string {
	session := a.Session
	if a.Tenant != "" {
		session = "tenant:" + a.Tenant + "/" + session
	}
	return fmt.Sprintf("%s\n\n%s: %s\nEverturn-Turn: %s\nEverturn-Step: %d\n%s: %s/%s\nEverturn-Tool: %s\n"+
		"Everturn-Model: %s\nEverturn-Arguments-Hash: %s\n%s: %s\n", oneLine(title, 100), trailerSession, oneLine(session,
		1000), oneLine(a.Turn, 200),
		a.Step, trailerCall, oneLine(a.Turn, 200), oneLine(a.Call, 100), oneLine(a.Tool, 200), oneLine(a.Model,
			200), a.ArgumentsHash, trailerBase,
		base)
}

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

// state is where a canvas stands. A canvas without commits has its base as head; both are empty in a repository without
// commits.
type state struct{ head, base string }

func (r *Repo) state(ctx context.Context, tenant, session string) (s state, begun bool, err error) {
	out, err := r.line(ctx, "log", "-1", "--format=%H %(trailers:key="+trailerBase+",valueonly,separator=%x20)",
		r.ref(tenant, session), "--")
	if err == nil {
		s.head, s.base, _ = strings.Cut(out, " ")
		if s.base == "" { // the branch was made or moved by someone else, or merged
			s.base = s.head
		}
		if s.base == emptyBase {
			s.base = ""
		}
		return s, true, nil
	}
	var failed *gitError
	if !errors.As(err, &failed) {
		return s, false, err
	}
	s.head, err = r.line(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if errors.As(err, &failed) { // a repository without commits
		s.head, err = "", nil
	}
	s.base = s.head
	return s, false, err
}

// emptyBase is the base of a canvas that began in a repository without commits.
const emptyBase = "none"

// entry is a file in a tree.
type entry struct{ mode, kind, object string }

// entries returns those of the paths that a commit has.
func (r *Repo) entries(ctx context.Context, commit string, paths ...string) (map[string]entry, error) {
	found := map[string]entry{}
	if commit == "" {
		return found, nil
	}
	out, err := r.git(ctx, nil, append([]string{"ls-tree", "-z", commit, "--"}, paths...)...)
	for _, line := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		about, name, _ := strings.Cut(line, "\t")
		if f := strings.Fields(about); len(f) == 3 {
			found[name] = entry{f[0], f[1], f[2]}
		}
	}
	return found, err
}

// cleanPath checks the path of a file on a canvas.
func cleanPath(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || clean == "." || path.IsAbs(name) || strings.Contains(name, `\`) || len(name) > 1000 {
		return "", fmt.Errorf("path %q: give the path of a file relative to the repository, with forward slashes", name)
	}
	for _, part := range strings.Split(name, "/") {
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

// Read returns a file of the session's canvas or, if it has none yet, of the repository's current commit.
func (r *Repo) Read(ctx context.Context, tenant, session, name string) ([]byte, error) {
	name, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	s, _, err := r.state(ctx, tenant, session)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, s.head, name)
}

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
	size, err := r.line(ctx, "cat-file", "-s", e.object)
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

// Change is what a commit does to one file: f gets its content, or nil and exists false, and returns the new one;
// delete removes it.
type Change func(old []byte, exists bool) (text []byte, remove bool, err error)

// maxRaces bounds how often a commit is tried again because another process has moved the branch.
const maxRaces = 50

// Commit changes one file of the session's canvas and returns the commit. If the canvas has a commit of this call,
// Commit returns that and changes nothing.
func (r *Repo) Commit(ctx context.Context, a Action, title, name string, change Change) (string, error) {
	name, err := cleanPath(name)
	if err != nil {
		return "", err
	}
	r.committing.Lock()
	defer r.committing.Unlock()
	for range maxRaces {
		s, begun, err := r.state(ctx, a.Tenant, a.Session)
		if err != nil {
			return "", err
		}
		if begun {
			if done, err := r.made(ctx, s, a); err != nil || done != "" {
				return done, err
			}
		}
		commit, err := r.commitOnce(ctx, s, a, title, name, change)
		var failed *gitError
		killed := errors.As(err, &failed) && failed.code < 0 // by someone else: whether it has committed, the branch tells
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

// BeginAt begins the canvas of an agent's session at the canvas of its caller, if that has one and it has none.
func (r *Repo) BeginAt(ctx context.Context, a Action, caller string) error {
	r.committing.Lock()
	defer r.committing.Unlock()
	if _, begun, err := r.state(ctx, a.Tenant, a.Session); err != nil || begun {
		return err
	}
	from, begun, err := r.state(ctx, a.Tenant, caller)
	if err != nil || !begun {
		return err
	}
	a.Call = "begin" // it is none of the call's own changes
	_, err = r.commitTree(ctx, a, "begin at the canvas of the caller", from.head+"^{tree}", from.head, "", from.head)
	if _, begun, serr := r.state(ctx, a.Tenant, a.Session); serr == nil && begun {
		return nil // also if another process was first
	}
	return err
}

// commitTree commits a tree to the session's canvas, which stands at old. base is the canvas's.
func (r *Repo) commitTree(ctx context.Context, a Action, title, tree, base, old string, parents ...string) (string,
	error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := r.git(ctx, []byte(a.message(title, base)), args...)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	_, err = r.git(ctx, nil, "update-ref", r.ref(a.Tenant, a.Session), id, cmp.Or(old, zeroID(id)))
	return id, err
}

// zeroID is the ID that stands for no object, as long as another one.
func zeroID(id string) string { return strings.Repeat("0", len(id)) }

// Take merges the canvas of another session into this one and returns the commit. If the canvas has a commit of this
// call, Take returns that. The error may be a *ConflictError.
func (r *Repo) Take(ctx context.Context, a Action, from string) (string, error) {
	r.committing.Lock()
	defer r.committing.Unlock()
	other, err := r.begun(ctx, a.Tenant, from)
	if err != nil {
		return "", err
	}
	s, begun, err := r.state(ctx, a.Tenant, a.Session)
	if err != nil {
		return "", err
	}
	old := ""
	if begun {
		old = s.head
		if done, err := r.made(ctx, s, a); err != nil || done != "" {
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

// made returns the commit of a call that has made one before a crash.
func (r *Repo) made(ctx context.Context, s state, a Action) (string, error) {
	name := regexp.QuoteMeta(oneLine(a.Turn, 200) + "/" + oneLine(a.Call, 100))
	return r.line(ctx, "log", "-1", "--extended-regexp", "--grep=^"+trailerCall+": "+name+"$", "--format=%H", s.span(),
		"--")
}

// span returns the commits of the canvas as git's log takes them.
func (s state) span() string {
	switch s.base {
	case "":
		return s.head
	case s.head:
		return s.head + "^!"
	}
	return s.base + ".." + s.head
}

var errRace = errors.New("the branch has moved")

// commitOnce tries once to commit a change of one file. It returns errRace if the branch has moved since s was read, or
// if another git is about to move it.
func (r *Repo) commitOnce(ctx context.Context, s state, a Action, title, name string, change Change) (string, error) {
	at := []string{name}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		at = append(at, dir)
	}
	found, err := r.entries(ctx, s.head, at...)
	if err != nil {
		return "", err
	}
	for _, dir := range at[1:] {
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
	ref := r.ref(a.Tenant, a.Session)
	message := a.message(title, base)
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
		r.unlock(ref)
		return "", errRace
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// quote writes a path as git's C-style strings.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// staleLock is the age from which the lock of a session's branch is that of a git that was killed: git holds it for
// milliseconds.
const staleLock = 10 * time.Second

// unlock removes the lock of a branch that was left behind.
func (r *Repo) unlock(ref string) {
	lock, err := r.line(context.Background(), "rev-parse", "--path-format=absolute", "--git-path", ref+".lock")
	if err != nil {
		return
	}
	if info, err := os.Lstat(lock); err == nil && time.Since(info.ModTime()) > staleLock {
		_ = os.Remove(lock) // if it fails, the next try meets the lock again
	}
}
