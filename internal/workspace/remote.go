package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// remoteRef is the reference of the remote that has the last commit of a session. It is no branch: those are for people,
// and a push to one starts whatever the remote runs for new commits.
func remoteRef(tenant, session string) string {
	return "refs/everturn/sessions/" + escape(qualified(tenant, session))
}

// trackRef is the reference of the store that has what remoteRef was at the remote when this place last saw it.
func trackRef(tenant, session string) string {
	return "refs/everturn/remote/" + escape(qualified(tenant, session))
}

// fetch gets the commits of a session from the remote: the last one, if there is one, those that it has left, and the
// commit id, unless it is empty.
func (s *Store) fetch(ctx context.Context, a Action, id string) error {
	left, track := leftRefs(a.Tenant, a.Session), trackRef(a.Tenant, a.Session)
	err := s.fetchRefs(ctx, "+"+remoteRef(a.Tenant, a.Session)+":"+track, "+"+left+"*:"+left+"*")
	if lacks(err) {
		_, err = s.git(ctx, nil, "update-ref", "-d", track)
	}
	if err == nil && id != "" && !s.has(ctx, id) {
		err = s.fetchRefs(ctx, id)
	}
	if lacks(err) {
		return nil
	}
	return err
}

// lacks reports whether err says that the remote has no such reference or commit.
func lacks(err error) bool {
	return refused(err) && (strings.Contains(err.Error(), "remote ref") || strings.Contains(err.Error(), "not our ref") ||
		strings.Contains(err.Error(), "unadvertised object"))
}

func (s *Store) fetchRefs(ctx context.Context, refs ...string) error {
	_, err := s.remote(ctx, s.o.Remote, append([]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-recurse-submodules", "--refmap=", remoteName}, refs...)...)
	return err
}

// push makes a commit the session's last one at the remote, in place of what this place knows to be there. If head is
// empty, it deletes the session's reference. A commit that this leaves is kept there under a reference of its own. If the
// remote has another commit, the error wraps journal.ErrStale if another place has the tree.
func (t *tree) push(ctx context.Context, head string) error {
	s, a := t.store, t.action
	if s.o.Remote == "" {
		return nil
	}
	track := trackRef(a.Tenant, a.Session)
	known, err := s.firstLine(ctx, "rev-parse", "--verify", "--quiet", track)
	if err != nil && !refused(err) || known == "" && head == "" || known == head {
		return ignoreRefused(err)
	}
	for try := 1; ; try++ {
		err := t.pushOver(ctx, head, known)
		var refusal *RemoteError
		if err == nil && head == "" {
			_, err = s.git(ctx, nil, "update-ref", "-d", track)
			return err
		}
		if err == nil {
			_, err = s.git(ctx, nil, "update-ref", track, head)
			return err
		}
		if !errors.As(err, &refusal) || !refusal.Refused || try == 3 {
			return err
		}
		if err := t.check(ctx); err != nil {
			return err
		}
		// An attempt that was interrupted may have pushed, or the place that had the tree before.
		if err := s.fetch(ctx, a, ""); err != nil {
			return &RemoteError{Address: refusal.Address, Commit: head, Err: err}
		}
		now, err := s.firstLine(ctx, "rev-parse", "--verify", "--quiet", track)
		if err != nil && !refused(err) || now == known {
			return errors.Join(refusal, ignoreRefused(err))
		}
		if now != "" {
			if err := t.isOurs(ctx, now, head); err != nil {
				return err
			}
		}
		known = now
	}
}

// isOurs returns an error if a commit at the remote is neither a commit of the session nor one from which it began.
func (t *tree) isOurs(ctx context.Context, at, head string) error {
	s, a := t.store, t.action
	if _, err := s.git(ctx, nil, "merge-base", "--is-ancestor", at, head); err == nil {
		return nil
	}
	by, err := s.firstLine(ctx, "log", "-1", "--format=%(trailers:key="+trailerSession+",valueonly,separator=)", at, "--")
	if err == nil && by != oneLine(qualified(a.Tenant, a.Session), 1000) {
		err = &RemoteError{Address: withoutPassword(s.o.Remote, s.o.Remote), Commit: head, Refused: true,
			Err: fmt.Errorf("its reference %s is at commit %.10s, which is not of this session: delete it there, or "+
				"give it another name", remoteRef(a.Tenant, a.Session), at)}
	}
	return err
}

// pushOver pushes a commit in place of the commit known, or of none.
func (t *tree) pushOver(ctx context.Context, head, known string) error {
	s, a := t.store, t.action
	var left []string
	if known != "" {
		if _, err := s.git(ctx, nil, "merge-base", "--is-ancestor", known, head+"^0"); refused(err) {
			left = []string{"+" + known + ":" + leftRefs(a.Tenant, a.Session) + known[:16]}
		}
	}
	return s.push(ctx, s.o.Remote, remoteRef(a.Tenant, a.Session), head, known, left...)
}

// ignoreRefused returns err, or nil if git has only said no.
func ignoreRefused(err error) error {
	if refused(err) {
		return nil
	}
	return err
}
