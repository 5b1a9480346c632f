package tables

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// maxDepth bounds the sessions of a line: reading one reads one row for each of its sessions.
const maxDepth = 1000

// AllMessages is a seq above that of any message.
const AllMessages = math.MaxInt64

// Segment is a range of a transcript, low < seq <= high, and the session whose rows hold it.
type Segment struct {
	Session   int64
	Low, High int64
}

// Segments returns the segments that hold a session's messages from..to, the oldest first.
func (q Querier) Segments(session, from, to int64) (list []Segment, err error) {
	from = max(from, 1)
	for session != 0 && from <= to {
		var parent, forkSeq int64
		if err := q.Row(`SELECT coalesce(parent, 0), coalesce(fork_seq, 0) FROM sessions WHERE id = ?`, session).Scan(&parent,
			&forkSeq); err != nil {
			return nil, err
		}
		if s := (Segment{session, max(forkSeq, from-1), to}); s.Low < s.High {
			list = append(list, s)
		}
		session, to = parent, min(to, forkSeq)
	}
	slices.Reverse(list)
	return list, nil
}

// point describes a message as a fork point.
type point struct {
	Hash  string
	Turn  string
	Role  turn.Role
	Calls bool // it asks for tool calls
}

// Point returns the message at seq, or sql.ErrNoRows.
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

// SessionRow returns the row of the tenant's session with this name, or sql.ErrNoRows.
func (q Querier) SessionRow(session string) (n int64, err error) {
	err = q.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, q.Tenant, session).Scan(&n)
	return n, err
}

// FindMessage returns the turn that took a message of the session or of its shared past, and the message's sequence
// number; or sql.ErrNoRows.
func (q Querier) FindMessage(session int64, messageID string) (turnN, seq int64, err error) {
	list, err := q.Segments(session, 1, AllMessages)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range slices.Backward(list) {
		err = q.Row(`SELECT turn, seq FROM messages WHERE session = ? AND message_id = ? AND seq <= ?`, s.Session, messageID,
			s.High).Scan(&turnN, &seq)
		if !errors.Is(err, sql.ErrNoRows) {
			return turnN, seq, err
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

// depth returns the number of sessions in the session's line.
func (q Querier) depth(session int64) (n int, err error) {
	err = q.Row(`WITH RECURSIVE line (session, depth) AS (
		SELECT CAST(? AS BIGINT), 1 UNION ALL
		SELECT s.parent, line.depth + 1 FROM line JOIN sessions s ON s.id = line.session WHERE s.parent IS NOT NULL
			AND line.depth <= ?
	) SELECT max(depth) FROM line`, session, maxDepth).Scan(&n)
	return n, err
}

// CheckDepth refuses a fork of a session whose line is as long as it may be.
func (q Querier) CheckDepth(session int64) error {
	n, err := q.depth(session)
	if err == nil && n >= maxDepth {
		err = fmt.Errorf("it would be session %d of its line; the maximum is %d: fork a session that is closer to the "+
			"first one", n+1, maxDepth)
	}
	return err
}
