package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Fork creates the session in.ID, which shares the messages 1 to in.At of in.Session. Nothing is copied, and
// in.Session does not change. ErrNotFound if in.Session does not exist, ErrExists if in.ID does, ErrForkPoint if the
// session cannot be forked at in.At.
func (db *DB) Fork(ctx context.Context, in ForkInput) (out SessionRecord, err error) {
	err = db.write(ctx, fmt.Sprintf("forking session %q", in.Session), func(t *tx) error {
		if err := errors.Join(record.CheckID("session", in.ID), t.LockSession(in.Session)); err != nil {
			return err
		}
		var parent, head int64
		err := t.Row(`SELECT id, head_seq FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant,
			in.Session).Scan(&parent, &head)
		if err != nil {
			return err
		}
		out, err = t.Session(in.ID)
		if t.Again() && err == nil && out.Parent == in.Session && out.CreatedAt.Equal(in.Time) {
			return nil // made by an earlier run of this transaction
		}
		if err == nil {
			return fmt.Errorf("%q: %w; choose another name", in.ID, ErrExists)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		forkHead, err := t.forkPoint(parent, head, in.At)
		if err != nil {
			return err
		}
		if err := t.CheckDepth(parent); err != nil {
			return err
		}
		if err := t.insertFork(parent, forkHead, in); err != nil {
			return err
		}
		out, err = t.Session(in.ID)
		return err
	})
	return out, err
}

// insertFork inserts the row of a fork whose last shared message is head. parent is the row of the forked session,
// whose taint the fork inherits.
func (t *tx) insertFork(parent int64, head turn.Head, in ForkInput) error {
	t.Changed[Topic{Session: in.ID, Tenant: t.Tenant}] = true
	var fork int64
	err := t.Row(`INSERT INTO sessions (session_id, tenant, agent, parent, fork_seq, head_seq, head_hash, first_text, created_at, updated_at)
		SELECT ?1, tenant, CASE ?2 WHEN '' THEN agent ELSE ?2 END, id, ?3, ?3, ?4, first_text, ?5, ?5 FROM sessions WHERE id = ?6 RETURNING id`,
		in.ID, in.Agent, head.Seq, head.Hash, tables.Nanos(in.Time), parent).Scan(&fork)
	if err != nil {
		return err
	}
	return t.Exec(`INSERT INTO taint_sources (session, turn, call_id, tool, at)
		SELECT CAST(? AS BIGINT), turn, call_id, tool, at FROM taint_sources WHERE session = ?`, fork, parent)
}

// forkPoint returns the head of a fork whose last shared message is at. head is the seq of the session's last message.
// If the session cannot be forked there, the error wraps ErrForkPoint and names the nearest messages at which it can.
func (t *tx) forkPoint(session, head, at int64) (turn.Head, error) {
	if at < 1 || at > head {
		return turn.Head{}, fmt.Errorf("message %d does not exist, the messages are 1 to %d: %w", at, head, ErrForkPoint)
	}
	good, err := t.forkable(session, at)
	if err != nil {
		return turn.Head{}, err
	}
	if good {
		p, err := t.Point(session, at)
		return turn.Head{Seq: at, Hash: p.Hash}, err
	}
	before, err := t.nearest(session, at, -1, head)
	if err != nil {
		return turn.Head{}, err
	}
	after, err := t.nearest(session, at, +1, head)
	if err != nil {
		return turn.Head{}, err
	}
	advice := fmt.Sprintf("fork it at %d or %d", before, after)
	if after == 0 {
		advice = fmt.Sprintf("fork it at %d", before)
	}
	return turn.Head{}, fmt.Errorf("message %d is between calls and their results: %w; %s", at, ErrForkPoint, advice)
}

// forkable reports whether a fork may share the messages up to seq: the message at seq requests no calls, and the next
// one is not the result of a call.
func (t *tx) forkable(session, seq int64) (bool, error) {
	p, err := t.Point(session, seq)
	if err != nil || p.Calls {
		return false, err
	}
	next, err := t.Point(session, seq+1)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return next.Role != turn.RoleTool, err
}

// nearest returns the seq of the nearest fork point before seq (direction -1) or after it (direction +1); 0 if there is
// none. head is the seq of the session's last message. The search is short: it passes at most the results of one
// completion's calls, and a session begins with a user message, which is a fork point.
func (t *tx) nearest(session, seq, direction, head int64) (int64, error) {
	for seq += direction; seq >= 1 && seq <= head; seq += direction {
		if good, err := t.forkable(session, seq); good || err != nil {
			return seq, err
		}
	}
	return 0, nil
}

// A fork shares the messages up to its fork_seq with its parent session, which may share some of them with its own
// parent. Nothing is copied: to read a fork's shared past, the journal follows the parents. Appends need only the head
// and never follow them.
