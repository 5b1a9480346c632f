package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHistory bounds how many commits a fork looks at to find where it begins.
const maxHistory = 50_000

// forkPoint returns the state of a session's canvas after the calls, which are the latest first: that of the commit of
// the latest one that has a commit, and of the commits of jobs that follow it, or else the state in which the canvas
// began, with shared false. It is empty if there is no canvas.
func (s *Store) forkPoint(ctx context.Context, tenant, session string, calls []string) (st state, shared bool,
	err error) {
	now, begun, err := s.latest(ctx, tenant, session)
	if err != nil || !begun {
		return state{}, false, err
	}
	log, err := s.history(ctx, tenant, session, now.head)
	if err != nil {
		return state{}, false, err
	}
	found, own, merged := map[string]state{}, []string{now.base}, map[string]bool{}
	var jobs state   // after a row of commits of jobs, which the fork shares
	var begin string // the commit at which the row begins
	for line := range strings.Lines(log) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\x00")
		if len(fields) != 4 || !objectID.MatchString(strings.Fields(fields[0])[0]) {
			continue
		}
		id, by, _ := strings.Cut(fields[0], " ")
		st := state{head: id, base: baseOf(fields[2], id)}
		if id == begin {
			st = jobs
		}
		if job, _, ok := strings.Cut(fields[1], jobSeparator); ok && slices.Contains(calls, job) {
			jobs = st
			begin, _, _ = strings.Cut(fields[3], " ")
		} else {
			jobs, begin = state{}, ""
		}
		if _, known := found[fields[1]]; !known { // a commit that was undone and made again may be here twice
			found[fields[1]] = st
		}
		switch {
		case by != oneLine(qualified(tenant, session), 1000):
		case fields[2] == baseItself:
			merged[id] = true
		default:
			own = append(own, st.base)
		}
	}
	for _, call := range calls {
		if st, ok := found[call]; ok {
			return st, true, nil
		}
	}
	for _, base := range own { // that of the first commit is no merge
		switch {
		case merged[base]:
		case base == begin:
			return jobs, true, nil
		default:
			return state{head: base, base: base}, false, nil
		}
	}
	return state{head: now.base, base: now.base}, false, nil
}

// history returns the commits of a session's canvas with this head, and of what it has left, the latest first. A line
// has the ID and the session, the call, the base and the parents, with NULs between them.
func (s *Store) history(ctx context.Context, tenant, session, head string) (string, error) {
	refs, err := s.git(ctx, nil, "for-each-ref", "--format=%(objectname)",
		strings.TrimSuffix(leftRefs(tenant, session), "/"))
	if err != nil {
		return "", err
	}
	format := "--format=%H"
	for i, key := range []string{trailerSession, trailerCall, trailerBase} {
		format += []string{" ", "%x00", "%x00"}[i] + "%(trailers:key=" + key + ",valueonly,separator=)"
	}
	args := append([]string{"log", "-n", strconv.Itoa(maxHistory), "--topo-order", "--grep=^" + trailerSession + ": ",
		format + "%x00%P", head}, strings.Fields(string(refs))...)
	log, err := s.git(ctx, nil, append(args, "--")...)
	return string(log), err
}

// baseOf returns the base that the trailer of the commit id names.
func baseOf(trailer, id string) string {
	switch {
	case trailer == baseItself:
		return id
	case objectID.MatchString(trailer):
		return trailer
	}
	return ""
}

// Undo takes back the last commit of a session's canvas, and returns it. The store keeps it under a reference.
func (s *Store) Undo(ctx context.Context, tenant, session string) (undone Commit, err error) {
	if _, err := s.existingState(ctx, tenant, session); err != nil {
		return undone, err
	}
	a := Action{Tenant: tenant, Session: session, Tool: "everturn canvas undo"}
	t, err := s.open(ctx, a, nil)
	if err != nil {
		return undone, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	ctx = t.locked(ctx)
	if err := t.settle(ctx, a); err != nil {
		return undone, err
	}
	shown, err := s.show(ctx, tenant, session, t.state)
	if err != nil {
		return undone, err
	}
	at := slices.IndexFunc(shown.Commits, func(c Commit) bool { return c.ID == t.state.head })
	parent, err := s.firstLine(ctx, "rev-parse", "--verify", "--quiet", t.state.head+"^1")
	if at < 0 || refused(err) {
		return undone, errors.New("there is nothing to undo: the canvas has no change since it began or was merged")
	}
	if err == nil {
		err = s.mark(t.name, unfinished{Action: a, Follow: true})
	}
	if err != nil {
		return undone, err
	}
	if err := t.moveTo(ctx, a, state{head: parent, base: t.state.base}, asideRefs); err != nil {
		return undone, fmt.Errorf("undoing the last change: %w", err)
	}
	return shown.Commits[at], nil
}
