package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// Fork makes a session that shares the messages 1..At of another one, by hash. Nothing is copied, and the other session
// does not change. ErrNotFound, ErrExists, ErrForkPoint.
func (s *DB) Fork(ctx context.Context, in ForkInput) (out SessionRecord, err error) {
	err = s.write(ctx, fmt.Sprintf("forking session %q", in.Session), func(t *tx) error {
		if err := errors.Join(checkID("session", in.ID), t.lockSession(in.Session)); err != nil {
			return err
		}
		var parent, head int64
		err := t.row(`SELECT id, head_seq FROM sessions WHERE tenant = ? AND session_id = ?`, t.tenant,
			in.Session).Scan(&parent, &head)
		if err != nil {
			return err
		}
		out, err = t.session(in.ID)
		if t.Again() && err == nil && out.Parent == in.Session && out.CreatedAt.Equal(in.Time) {
			return nil // made by an earlier run of this transaction
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return errors.Join(err, fmt.Errorf("%q: %w; choose another name", in.ID, ErrExists))
		}
		at, err := t.forkPoint(parent, head, in.At)
		if err != nil {
			return err
		}
		if err := t.checkDepth(parent); err != nil {
			return err
		}
		if err := t.insertFork(parent, at, in); err != nil {
			return err
		}
		out, err = t.session(in.ID)
		return err
	})
	return out, err
}

func (t *tx) insertFork(parent int64, at turn.Head, in ForkInput) error {
	t.changed[Topic{Session: in.ID, Tenant: t.tenant}] = true
	var fork int64
	err := t.row(`INSERT INTO sessions (session_id, tenant, agent, parent, fork_seq, head_seq, head_hash, first_text, created_at, updated_at)
		SELECT ?1, tenant, CASE ?2 WHEN '' THEN agent ELSE ?2 END, id, ?3, ?3, ?4, first_text, ?5, ?5 FROM sessions WHERE id = ?6 RETURNING id`,
		in.ID, in.Agent, at.Seq, at.Hash, nanos(in.Time), parent).Scan(&fork)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO taint_sources (session, turn, call_id, tool, at)
		SELECT CAST(? AS BIGINT), turn, call_id, tool, at FROM taint_sources WHERE session = ?`, fork, parent)
}

// forkPoint returns the head at a point, or an error that names the nearest points at which the session can be forked.
func (q querier) forkPoint(session, head, at int64) (turn.Head, error) {
	if at < 1 || at > head {
		return turn.Head{}, fmt.Errorf("message %d does not exist, the messages are 1 to %d: %w", at, head, ErrForkPoint)
	}
	good, err := q.forkable(session, at)
	if err != nil {
		return turn.Head{}, err
	}
	if good {
		p, err := q.point(session, at)
		return turn.Head{Seq: at, Hash: p.hash}, err
	}
	before, err := q.nearest(session, at, -1, head)
	if err != nil {
		return turn.Head{}, err
	}
	after, err := q.nearest(session, at, +1, head)
	if err != nil {
		return turn.Head{}, err
	}
	where := fmt.Sprintf("fork it at %d or %d", before, after)
	if after == 0 {
		where = fmt.Sprintf("fork it at %d", before)
	}
	return turn.Head{}, fmt.Errorf("message %d is between calls and their results: %w; %s", at, ErrForkPoint, where)
}

// forkable reports whether a fork after seq keeps every call together with its result.
func (q querier) forkable(session, seq int64) (bool, error) {
	p, err := q.point(session, seq)
	if err != nil || p.calls {
		return false, err
	}
	next, err := q.point(session, seq+1)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return next.role != turn.RoleTool, err
}

// nearest looks for a fork point in the direction of step, 0 if there is none. The search is short: it passes at most
// the calls of one completion, and a session begins with a user message, which is a fork point.
func (q querier) nearest(session, seq, step, head int64) (int64, error) {
	for seq += step; seq >= 1 && seq <= head; seq += step {
		if good, err := q.forkable(session, seq); good || err != nil {
			return seq, err
		}
	}
	return 0, nil
}

// A fork has the messages up to its fork_seq from its parent, which may have some of them from its own parent. Nothing
// is copied: to read a session's past, the journal follows this line of parents. Appends need only the head and never
// follow it.

// maxDepth bounds the sessions of a line: reading one reads one row for each of its sessions.
const maxDepth = 1000

// allMessages is a seq above that of any message.
const allMessages = math.MaxInt64

// segment is a range of a transcript, low < seq <= high, and the session whose rows hold it.
type segment struct {
	session   int64
	low, high int64
}

// segments returns the segments that hold a session's messages from..to, the oldest first.
func (q querier) segments(session, from, to int64) (list []segment, err error) {
	from = max(from, 1)
	for session != 0 && from <= to {
		var parent, forkSeq int64
		if err := q.row(`SELECT coalesce(parent, 0), coalesce(fork_seq, 0) FROM sessions WHERE id = ?`, session).Scan(&parent,
			&forkSeq); err != nil {
			return nil, err
		}
		if s := (segment{session, max(forkSeq, from-1), to}); s.low < s.high {
			list = append(list, s)
		}
		session, to = parent, min(to, forkSeq)
	}
	slices.Reverse(list)
	return list, nil
}

// point describes a message as a fork point.
type point struct {
	hash  string
	turn  string
	role  turn.Role
	calls bool // it asks for tool calls
}

// point returns the message at seq, or sql.ErrNoRows.
func (q querier) point(session, seq int64) (p point, err error) {
	list, err := q.segments(session, seq, seq)
	if err != nil {
		return p, err
	}
	if len(list) == 0 {
		return p, sql.ErrNoRows
	}
	err = q.row(`SELECT m.hash, t.turn_id, m.role, m.tool_calls IS NOT NULL FROM messages m JOIN turns t ON t.id = m.turn
		WHERE m.session = ? AND m.seq = ?`, list[0].session, seq).Scan(&p.hash, &p.turn, &p.role, &p.calls)
	return p, err
}

// sessionRow returns the row of the tenant's session with this name, or sql.ErrNoRows.
func (q querier) sessionRow(session string) (n int64, err error) {
	err = q.row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, q.tenant, session).Scan(&n)
	return n, err
}

// turnOfMessage returns the turn that took a message of the session or of its shared past, or sql.ErrNoRows.
func (q querier) turnOfMessage(session int64, messageID string) (turnN int64, err error) {
	list, err := q.segments(session, 1, allMessages)
	if err != nil {
		return 0, err
	}
	for _, s := range slices.Backward(list) {
		err = q.row(`SELECT turn FROM messages WHERE session = ? AND message_id = ? AND seq <= ?`, s.session, messageID,
			s.high).Scan(&turnN)
		if !errors.Is(err, sql.ErrNoRows) {
			return turnN, err
		}
	}
	return 0, sql.ErrNoRows
}

// hasMessage reports whether the session, or its shared past, has a message with this ID.
func (q querier) hasMessage(session int64, messageID string) (bool, error) {
	_, err := q.turnOfMessage(session, messageID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// depth returns the number of sessions in the session's line.
func (q querier) depth(session int64) (n int, err error) {
	err = q.row(`WITH RECURSIVE line (session, depth) AS (
		SELECT CAST(? AS BIGINT), 1 UNION ALL
		SELECT s.parent, line.depth + 1 FROM line JOIN sessions s ON s.id = line.session WHERE s.parent IS NOT NULL
			AND line.depth <= ?
	) SELECT max(depth) FROM line`, session, maxDepth).Scan(&n)
	return n, err
}

func (q querier) checkDepth(session int64) error {
	n, err := q.depth(session)
	if err == nil && n >= maxDepth {
		err = fmt.Errorf("it would be session %d of its line; the maximum is %d: fork a session that is closer to the "+
			"first one", n+1, maxDepth)
	}
	return err
}
