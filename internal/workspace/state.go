package workspace

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/everturn/everturn/journal"
)

// ErrNoCanvas means that a session has no canvas. A caller may distinguish it with errors.Is.
var ErrNoCanvas = errors.New("the session has no canvas yet: it begins with the first call that needs it")

// state is the position of a canvas: head is its last commit, base the commit of the repository at which it began. Both
// are empty if the repository had no commits. A canvas without commits has its base as head.
type state struct{ head, base string }

// objectID matches the ID of a git object. Anything else could be an option of git.
var objectID = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// readState returns the state of a session's canvas; begun is false if it has no branch yet.
func (s *Store) readState(ctx context.Context, tenant, session string) (st state, begun bool, err error) {
	head, base := headRef(tenant, session), baseRef(tenant, session)
	out, err := s.git(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname)", head, base)
	for _, line := range strings.Split(string(out), "\n") {
		switch name, id, _ := strings.Cut(line, " "); name {
		case head:
			st.head = id
		case base:
			st.base = id
		}
	}
	return st, st.head != "", err
}

// existingState returns the state of a session's canvas, or ErrNoCanvas.
func (s *Store) existingState(ctx context.Context, tenant, session string) (state, error) {
	st, begun, err := s.latest(ctx, tenant, session)
	if err == nil && !begun {
		err = ErrNoCanvas
	}
	return st, err
}

// repoHead returns the commit that is checked out in the user's repository, or "" if there is none.
func (s *Store) repoHead(ctx context.Context) (string, error) {
	id, err := s.firstLineIn(ctx, s.workGit, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if refused(err) {
		return "", nil
	}
	return id, err
}

// commitOf returns the commit that the call a has already made on the canvas, or "" if there is none.
func (s *Store) commitOf(ctx context.Context, st state, a Action) (string, error) {
	if st.head == "" {
		return "", nil
	}
	return s.firstLine(ctx, "log", "-1", "--extended-regexp", "--grep=^"+trailerCall+": "+regexp.QuoteMeta(a.call())+"$",
		"--format=%H", st.revisions(), "--")
}

// revisions returns the commits of the canvas in the form of an argument of git log.
func (st state) revisions() string {
	switch st.base {
	case "":
		return st.head
	case st.head: // only the head itself, which may be the merge that a call has made
		return st.head + "^!"
	}
	return st.base + ".." + st.head
}

// Origin is where the canvas of a session begins. The zero value means the commit that is checked out in the user's
// repository.
type Origin struct {
	// Caller is the session of the caller, if the session is a subagent's: it begins at the head of that canvas.
	Caller string
	// Parents are the sessions that the session was forked from, the nearest first, and Calls the calls whose results it
	// shares with them, as TURN/CALL, the latest first: it begins at the last of their commits.
	Parents, Calls []string
}

// origin returns the state in which the canvas of a session begins, and a revision of the user's repository that reaches
// all objects of it that the store borrows. The state is empty in a repository without commits.
func (s *Store) origin(ctx context.Context, a Action, origin Origin) (st state, held string, err error) {
	if origin.Caller != "" {
		from, begun, err := s.latest(ctx, a.Tenant, origin.Caller)
		if err != nil || begun {
			return state{head: from.head, base: from.head}, heldRef(a.Tenant, origin.Caller), err
		}
	}
	var from state
	var of string
	calls := origin.Calls
	for _, parent := range origin.Parents {
		st, shared, err := s.forkPoint(ctx, a.Tenant, parent, calls)
		if err != nil {
			return state{}, "", err
		}
		if st.head != "" { // without a shared commit, the fork begins where the first of its parents began
			from, of, calls = st, parent, nil
		}
		if shared {
			break
		}
	}
	if of != "" {
		return from, heldRef(a.Tenant, of), s.copyLeft(ctx, a, of)
	}
	head, err := s.repoHead(ctx)
	return state{head: head, base: head}, head, err
}

// copyLeft gives a fork the references to what its parent's canvas had before merges, so that a fork of the fork finds
// the calls before them.
func (s *Store) copyLeft(ctx context.Context, a Action, parent string) error {
	from := leftRefs(a.Tenant, parent)
	left, err := s.git(ctx, nil, "for-each-ref", "--format=%(refname:lstrip=-1) %(objectname)",
		strings.TrimSuffix(from, "/"))
	if err != nil || len(left) == 0 {
		return err
	}
	var updates strings.Builder
	for line := range strings.Lines(string(left)) {
		updates.WriteString("update " + leftRefs(a.Tenant, a.Session) + line)
	}
	_, err = s.git(ctx, []byte(updates.String()), "update-ref", "--stdin")
	return err
}

// begin begins the canvas of a session at its origin.
func (t *tree) begin(ctx context.Context, origin Begins) (err error) {
	s, a := t.store, t.action
	var from Origin
	if origin != nil {
		if from, err = origin(ctx); err != nil {
			return err
		}
	}
	st, held, err := s.origin(ctx, a, from)
	if err == nil && st.head != "" {
		err = s.hold(ctx, a, held)
	}
	if err == nil {
		err = t.advanceFirst(ctx, st)
	}
	if err != nil || st.head == "" {
		return err
	}
	refs := fmt.Sprintf("update %s %s %s\n", headRef(a.Tenant, a.Session), st.head, zeroID(st.head))
	if st.base != "" {
		refs += fmt.Sprintf("update %s %s\n", baseRef(a.Tenant, a.Session), st.base)
	}
	_, err = s.git(ctx, []byte(refs), "update-ref", "--stdin")
	t.state = st
	return err
}

// advanceFirst records the first state of a canvas in the journal. If another place has begun it meanwhile, the error is
// an *ElsewhereError.
func (t *tree) advanceFirst(ctx context.Context, st state) error {
	t.row.Place = t.store.place
	err := t.advance(ctx, st)
	if !errors.Is(err, journal.ErrStale) {
		return err
	}
	row, holder, err := t.store.o.journal().Tree(ctx, t.action.Tenant, t.action.Session)
	if err != nil {
		return err
	}
	return t.store.elsewhere(t.action.Session, row, holder)
}

// latest returns the state of a session's canvas, of which the store then has the commits, also if another place has the
// tree; begun is false if there is none.
func (s *Store) latest(ctx context.Context, tenant, session string) (st state, begun bool, err error) {
	j := s.o.journal()
	if j == nil {
		return s.readState(ctx, tenant, session)
	}
	row, holder, err := j.Tree(ctx, tenant, session)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return s.readState(ctx, tenant, session)
	case err != nil || row.Dropped():
		return st, false, err
	case row.Place != s.place && s.o.Remote == "" && holder.Unseen < s.o.TakeoverAfter:
		return st, false, s.elsewhere(session, row, holder)
	case row.Place != s.place:
		err = s.bring(ctx, Action{Tenant: tenant, Session: session}, row, holder.Worker)
	}
	return state{head: row.Head, base: row.Base}, row.Head != "", err
}

// hold makes git keep a commit in the user's repository, with all objects that the canvas borrows. held is a revision;
// a reference that does not exist is that of a canvas which borrows nothing.
func (s *Store) hold(ctx context.Context, a Action, held string) error {
	id, err := s.firstLineIn(ctx, s.gitDir, "rev-parse", "--verify", "--quiet", held+"^{commit}")
	if refused(err) {
		return nil
	}
	if err == nil {
		_, err = s.gitIn(ctx, s.gitDir, nil, "update-ref", heldRef(a.Tenant, a.Session), id)
	}
	return err
}

// zeroID returns the null object ID, in the length of id. git update-ref takes it to mean that a reference must not
// exist.
func zeroID(id string) string { return strings.Repeat("0", len(id)) }

// entry is a file in a git tree.
type entry struct{ mode, object string }

// The modes of entries.
const (
	modeFile    = "100644"
	modeProgram = "100755"
	modeLink    = "120000"
	modeRepo    = "160000" // a submodule
)

// list returns the files of a commit by path, or only those of paths that exist. An empty commit has none.
func (s *Store) list(ctx context.Context, commit string, paths ...string) (map[string]entry, error) {
	found := map[string]entry{}
	if commit == "" {
		return found, nil
	}
	out, err := s.git(ctx, nil, append([]string{"ls-tree", "-r", "-z", "--full-tree", commit, "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		attributes, name, ok := strings.Cut(line, "\t")
		if f := strings.Fields(attributes); ok && len(f) == 3 { // mode, kind and object
			found[name] = entry{f[0], f[2]}
		}
	}
	return found, nil
}
