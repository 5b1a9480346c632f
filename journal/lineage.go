package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

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
