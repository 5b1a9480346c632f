package tables

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// maxDepth bounds the length of a session's line: the session, the session that it was forked from, and so on.
// Reading a transcript reads one row for each of these sessions.
const maxDepth = 1000

// AllMessages is a seq above that of any message.
const AllMessages = math.MaxInt64

// Segment is a range of a transcript, Low < seq <= High, whose messages are rows of one session.
type Segment struct {
	Session   int64
	Low, High int64
}

// Segments returns the segments with a session's messages from..to, the oldest first. A session that is no fork has at
// most one; a fork has further ones of the sessions that it shares messages with.
func (q Querier) Segments(session, from, to int64) (list []Segment, err error) {
	from = max(from, 1)
	for session != 0 && from <= to {
		var parent, forkSeq int64
		if err := q.Row(`SELECT coalesce(parent, 0), coalesce(fork_seq, 0) FROM sessions WHERE id = ?`, session).Scan(&parent,
			&forkSeq); err != nil {
			return nil, err
		}
		// The session's own rows begin after forkSeq, which is 0 if it is no fork.
		if s := (Segment{session, max(forkSeq, from-1), to}); s.Low < s.High {
			list = append(list, s)
		}
		session, to = parent, min(to, forkSeq) // the parent has the messages up to forkSeq
	}
	slices.Reverse(list)
	return list, nil
}

// point is what Point returns of a message.
type point struct {
	Hash  string
	Turn  string
	Role  turn.Role
	Calls bool // the message requests tool calls
}

// Point returns the hash, turn and role of the message at seq, of the session or of its shared past; or sql.ErrNoRows.
func (q Querier) Point(session, seq int64) (p point, err error) {
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
func (q Querier) SessionRow(session string) (n int64, err error) {
	err = q.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, q.Tenant, session).Scan(&n)
	return n, err
}

// FindMessage looks for a message by its ID in the session and its shared past. It returns the row of the turn that
// took the message and the message's seq, or sql.ErrNoRows. It looks in the newest segment first.
func (q Querier) FindMessage(session int64, messageID string) (turnRow, seq int64, err error) {
	list, err := q.Segments(session, 1, AllMessages)
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
func (q Querier) HasMessage(session int64, messageID string) (bool, error) {
	_, _, err := q.FindMessage(session, messageID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// depth returns the length of a session's line, but at most maxDepth + 1. It is 1 for a session that is no fork.
func (q Querier) depth(session int64) (n int, err error) {
	err = q.Row(`WITH RECURSIVE line (session, depth) AS (
		SELECT CAST(? AS BIGINT), 1 UNION ALL
		SELECT s.parent, line.depth + 1 FROM line JOIN sessions s ON s.id = line.session WHERE s.parent IS NOT NULL
			AND line.depth <= ?
	) SELECT max(depth) FROM line`, session, maxDepth).Scan(&n)
	return n, err
}

// CheckDepth returns an error if a fork of the session would exceed the maximum length of a line of forks.
func (q Querier) CheckDepth(session int64) error {
	n, err := q.depth(session)
	if err == nil && n >= maxDepth {
		err = fmt.Errorf("it would be session %d of its line; the maximum is %d: fork a session that is closer to the "+
			"first one", n+1, maxDepth)
	}
	return err
}
