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

// Fork creates the session in.ID, which shares the messages 1 to in.At of in.Session. Nothing is copied, and
// in.Session does not change. ErrNotFound if in.Session does not exist, ErrExists if in.ID does, ErrForkPoint if the
// session cannot be forked at in.At.
func (db *DB) Fork(ctx context.Context, in ForkInput) (out SessionRecord, err error) {
	err = db.write(ctx, fmt.Sprintf("forking session %q", in.Session), func(t *tx) error {
		if err := errors.Join(checkID("session", in.ID), t.LockSession(in.Session)); err != nil {
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
		in.ID, in.Agent, head.Seq, head.Hash, nanos(in.Time), parent).Scan(&fork)
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

// maxDepth bounds the length of a session's line: the session, the session that it was forked from, and so on.
// Reading a transcript reads one row for each of these sessions.
const maxDepth = 1000

// allMessages is a seq above that of any message.
const allMessages = math.MaxInt64

// segment is a range of a transcript, Low < seq <= High, whose messages are rows of one session.
type segment struct {
	Session   int64
	Low, High int64
}

// Segments returns the segments with a session's messages from..to, the oldest first. A session that is no fork has at
// most one; a fork has further ones of the sessions that it shares messages with.
func (q querier) Segments(session, from, to int64) ([]segment, error) {
	line, err := q.line(`s.id = ?2`, session, to)
	return segmentsFrom(line, from), err
}

// line returns the segments of a transcript up to the message to, the oldest first, also those without messages. where
// selects the session s; its argument is ?2.
func (q querier) line(where string, argument any, to int64) ([]segment, error) {
	return collect(q, func(scan scanner) (s segment, err error) {
		err = scan(&s.Session, &s.Low, &s.High)
		return s, err
	}, `WITH RECURSIVE line (session, parent, low, high, depth) AS (
		SELECT s.id, s.parent, coalesce(s.fork_seq, 0), CAST(?1 AS BIGINT), 0 FROM sessions s WHERE `+where+`
		UNION ALL SELECT p.id, p.parent, coalesce(p.fork_seq, 0), CASE WHEN line.high < line.low THEN line.high ELSE line.low END,
			line.depth + 1 FROM line JOIN sessions p ON p.id = line.parent)
		SELECT session, low, high FROM line ORDER BY depth DESC`, to, argument)
}

// segmentsFrom returns the segments of a line with the messages from this one on.
func segmentsFrom(line []segment, from int64) (list []segment) {
	for _, s := range line {
		if s.Low = max(s.Low, from-1); s.Low < s.High {
			list = append(list, s)
		}
	}
	return list
}

// point is what Point returns of a message.
type point struct {
	Hash  string
	Turn  string
	Role  turn.Role
	Calls bool // the message requests tool calls
}

// Point returns the hash, turn and role of the message at seq, of the session or of its shared past; or sql.ErrNoRows.
func (q querier) Point(session, seq int64) (p point, err error) {
	list, err := q.Segments(session, seq, seq)
	if err != nil {
		return p, err
	}
	if len(list) == 0 {
		return p, sql.ErrNoRows
	}
	err = q.Row(`SELECT m.hash, t.turn_id, m.role, m.tool_calls IS NOT NULL FROM messages m JOIN turns t ON t.id = m.turn
		WHERE m.session = ? AND m.seq = ?`, list[0].Session, seq).Scan(&p.Hash, &p.Turn, &p.Role, &p.Calls)
	return p, err
}

// SessionRow returns the row number of the tenant's session with this ID, or sql.ErrNoRows.
func (q querier) SessionRow(session string) (n int64, err error) {
	err = q.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, q.Tenant, session).Scan(&n)
	return n, err
}

// FindMessage looks for a message by its ID in the session and its shared past. It returns the row of the turn that
// took the message and the message's seq, or sql.ErrNoRows. It looks in the newest segment first.
func (q querier) FindMessage(session int64, messageID string) (turnRow, seq int64, err error) {
	list, err := q.Segments(session, 1, allMessages)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range slices.Backward(list) {
		err = q.Row(`SELECT turn, seq FROM messages WHERE session = ? AND message_id = ? AND seq <= ?`, s.Session, messageID,
			s.High).Scan(&turnRow, &seq)
		if !errors.Is(err, sql.ErrNoRows) {
			return turnRow, seq, err
		}
	}
	return 0, 0, sql.ErrNoRows
}

// HasMessage reports whether the session, or its shared past, has a message with this ID.
func (q querier) HasMessage(session int64, messageID string) (bool, error) {
	_, _, err := q.FindMessage(session, messageID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// depth returns the length of a session's line, but at most maxDepth + 1. It is 1 for a session that is no fork.
func (q querier) depth(session int64) (n int, err error) {
	err = q.Row(`WITH RECURSIVE line (session, depth) AS (
		SELECT CAST(? AS BIGINT), 1 UNION ALL
		SELECT s.parent, line.depth + 1 FROM line JOIN sessions s ON s.id = line.session WHERE s.parent IS NOT NULL
			AND line.depth <= ?
	) SELECT max(depth) FROM line`, session, maxDepth).Scan(&n)
	return n, err
}

// CheckDepth returns an error if a fork of the session would exceed the maximum length of a line of forks.
func (q querier) CheckDepth(session int64) error {
	n, err := q.depth(session)
	if err == nil && n >= maxDepth {
		err = fmt.Errorf("it would be session %d of its line; the maximum is %d: fork a session that is closer to the "+
			"first one", n+1, maxDepth)
	}
	return err
}
