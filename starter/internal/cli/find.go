package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// dialWithin bounds how long a command waits for a Temporal server that it can do without.
const dialWithin = 3 * time.Second

// find returns the turn to follow: the named one, or the session's last turn, which Temporal may know before the
// journal does. Without Temporal, find uses what the journal knows.
func (t *turnClient) find(ctx context.Context, session, turnID string) (started, error) {
	if turnID != "" {
		if row, err := t.store.Turn(ctx, turnID); err == nil && row.Session != session {
			return started{}, usage("turn %s belongs to session %q: use `starter attach %s --turn %s`", turnID, row.Session,
				quoted(row.Session), turnID)
		}
	}
	known, err := t.client.Find(ctx, session, turnID)
	if err != nil && (t.online || !errors.Is(err, client.ErrNotFound)) {
		return started{}, t.notFound(session, turnID, err)
	}
	recorded, ended := err == nil, false
	if recorded {
		r, err := t.client.Result(ctx, known)
		ended = err == nil && r.State.Terminal()
	}
	if t.online || turnID != "" && ended {
		return t.linked(known), nil
	}
	return t.askTemporal(ctx, known, turnID, recorded, ended)
}

// askTemporal connects to Temporal and asks it for the turn. known is what the journal has of the turn.
func (t *turnClient) askTemporal(ctx context.Context, known client.Turn,
	turnID string, recorded, ended bool) (started, error) {
	dialling, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	err := t.connectToTemporal(dialling)
	switch {
	case err == nil:
		session := known.Session
		if known, err = t.client.Find(ctx, session, turnID); err != nil {
			return started{}, t.notFound(session, turnID, err)
		}
	case ended && errors.Is(err, config.ErrInvalid): // another folder's server uses our address; ours is not running
	case !recorded, !errors.Is(err, client.ErrUnreachable) && dialling.Err() == nil:
		return started{}, err
	case !ended:
		t.app.note("Temporal is unreachable; showing what the journal has of the turn (%v)", err)
	}
	return t.linked(known), nil
}

// notFound says what to do about a turn that could not be found.
func (t *turnClient) notFound(session, turnID string, err error) error {
	switch {
	case !errors.Is(err, client.ErrNotFound):
		return err
	case turnID != "":
		return usage("session %q has no turn %q; `starter show %s` lists its turns", session, turnID, quoted(session))
	}
	return usage("Temporal has no session %q; `starter list` lists the sessions of the journal", session)
}

// latest returns the session that was used last.
func (t *turnClient) latest(ctx context.Context) (string, error) { return lastSession(ctx, t.store) }

// running returns the only session with a turn that is not over.
func (t *turnClient) running(ctx context.Context) (string, error) {
	if err := t.connectToTemporal(ctx); err != nil {
		return "", err
	}
	found, err := t.client.RunningSessions(ctx)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", usage("no session has a running turn; `starter list` lists the sessions")
	case len(found) == 1:
		return found[0], nil
	}
	return "", usage("several sessions have a running turn: name one of them (%s)", line(strings.Join(found, ", "), 400))
}
