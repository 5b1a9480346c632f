package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// claimSubagent records a as the subagent of a claimed call, unless the call has one, and returns the call's subagent:
// that of the first claim. It returns nil if the call was settled before any claim.
func (t *tx) claimSubagent(c callRow, a Subagent) (*Subagent, error) {
	if c.Rec.Outcome == "" {
		if err := t.InsertSubagent(c.scope, c.Row, c.Rec.Call.ID, a); err != nil {
			return nil, err
		}
	}
	recorded, err := t.Subagent(c.TurnID, c.Rec.Call.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &recorded.Subagent, err
}

// Subagent returns the subagent that a turn's call has started. ErrNotFound if there is none.
func (db *DB) Subagent(ctx context.Context, turnID, callID string) (Subagent, error) {
	return get(ctx, db, callName("reading the subagent of", turnID, callID),
		func(q querier) (Subagent, error) {
			a, err := q.Subagent(turnID, callID)
			return a.Subagent, err
		})
}

// SpentBySubagent returns what the subagent of a call has used, its own subagents included. If its turn has not
// ended, or ended without a record of its spending, this is the whole allowance that it was granted. ErrNotFound if
// the call has started no subagent.
func (db *DB) SpentBySubagent(ctx context.Context, turnID, callID string) (turn.Spending, error) {
	return get(ctx, db, callName("reading what was used by the subagent of", turnID, callID),
		func(q querier) (spent turn.Spending, err error) {
			a, err := q.Subagent(turnID, callID)
			if err != nil {
				return spent, err
			}
			return q.SpentBy(a)
		})
}

// answeringSubagent returns the subagent whose answer the message is, from the form of the message's ID; the zero value
// if the ID is not that of an answer. ErrNotFound if the ID has this form, but does not belong to a subagent in the
// background of this session that has ended or was stopped: a client may send any message ID.
func answeringSubagent(q querier, sc scope, messageID string) (a subagentRow, err error) {
	name, ok := turn.AnsweringSubagent(messageID)
	if !ok {
		return a, nil
	}
	a, err = q.subagent(`a.session = ? AND a.name = ?`, sc.Session, name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return a, err
	}
	if err != nil || !a.Background || a.State == subagentWorking {
		return a, fmt.Errorf("message %q is not the answer of a subagent of this session: %w", preview(messageID, 200),
			ErrNotFound)
	}
	return a, nil
}

// Origin returns the turn that called a subagent, the user message behind that turn, and the spending of everything
// that resulted from this user message. messageID is the ID of the subagent's answer. own is the ID of the turn that
// begins with the answer; its spending does not count. ErrNotFound if the session has no such answer.
func (db *DB) Origin(ctx context.Context, session, messageID, own string) (Origin, error) {
	return getOfSession(ctx, db, session, "looking for what an answer comes of",
		func(q querier, n int64) (out Origin, err error) {
			a, err := answeringSubagent(q, scope{Session: n}, messageID)
			if err != nil {
				return out, err
			}
			var root int64
			// Without a subagent, a.Turn is 0, and no turn has this row.
			err = q.Row(`SELECT c.turn_id, r.turn_id, r.id FROM turns c JOIN turns r ON r.id = coalesce(c.root, c.id)
				WHERE c.id = ?`, a.Turn).Scan(&out.Turn, &out.Root, &root)
			if err == nil {
				out.Spent, out.Known, err = q.SpentBelow(root, own)
			}
			return out, err
		})
}

// StopSubagents stops the session's subagents in the background: their answers begin no turn from now on. It returns
// the session IDs of the subagents whose turns may still run; none if the session does not exist.
func (db *DB) StopSubagents(ctx context.Context, session string) (names []string, err error) {
	err = db.write(ctx, fmt.Sprintf("stopping the subagents of session %q", session), func(t *tx) error {
		if err := t.LockSession(session); err != nil {
			return err
		}
		var n int64
		err := t.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant, session).Scan(&n)
		if err != nil {
			return ignoreNoRows(err)
		}
		names, err = t.StopSubagents(n)
		return err
	})
	return names, err
}

// AnswerKept reports whether the message is a subagent's answer that begins no turn and that the session's next
// inference shows to the model: see BeginResult.Kept. It is false for an ID that is not that of an answer. ErrNotFound
// if the ID has this form and the session has no such subagent.
func (db *DB) AnswerKept(ctx context.Context, session, messageID string) (bool, error) {
	if _, ok := turn.AnsweringSubagent(messageID); !ok {
		return false, nil
	}
	return getOfSession(ctx, db, session, "looking for an answer",
		func(q querier, n int64) (bool, error) {
			a, err := answeringSubagent(q, scope{Session: n}, messageID)
			if err != nil {
				return false, err
			}
			return q.AnswerKept(a)
		})
}

// The states of subagents.
const (
	subagentWorking = "working"
	subagentEnded   = "ended"
	subagentStopped = "stopped" // a user stopped it: its answer begins no turn
)

// subagentRow is a row of the table subagents.
type subagentRow struct {
	Subagent
	Call    int64  // the row of the call that started it; 0 in the zero value
	Turn    int64  // the row of the caller's turn
	Session int64  // the row of the caller's session
	Name    string // the ID of its own session
	State   string
}

// Subagent returns the subagent that a turn's call has started, or sql.ErrNoRows.
func (q querier) Subagent(turnID, callID string) (subagentRow, error) {
	return q.subagent(`t.turn_id = ? AND c.call_id = ? AND s.tenant = ?`, turnID, callID, q.Tenant)
}

// subagent returns the subagent that the SQL condition where selects, or sql.ErrNoRows. The tables are subagents a, and
// calls c, turns t and sessions s of its caller.
func (q querier) subagent(where string, args ...any) (a subagentRow, err error) {
	var granted string
	err = q.Row(`SELECT a.call, a.turn, a.session, a.name, a.background, a.granted, a.state FROM subagents a
		JOIN calls c ON c.id = a.call JOIN turns t ON t.id = a.turn JOIN sessions s ON s.id = a.session WHERE `+where,
		args...).Scan(&a.Call, &a.Turn, &a.Session, &a.Name, &a.Background, &granted, &a.State)
	if err == nil {
		err = json.Unmarshal([]byte(granted), &a.Granted)
	}
	return a, err
}

// InsertSubagent records that a call has started a subagent, once.
func (t *tx) InsertSubagent(sc scope, call int64, callID string, a Subagent) error {
	return t.Exec(`INSERT INTO subagents (call, turn, session, name, background, granted, state)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, call, sc.Turn, sc.Session, turn.SubagentSession(sc.TurnID, callID),
		a.Background, string(mustJSON(a.Granted)), subagentWorking)
}

// EndSubagent records that the subagent of a call has ended, unless it was stopped. background selects whether this
// ends a subagent in the background or an inline one; the other kind does not change.
func (t *tx) EndSubagent(call int64, background bool) error {
	return t.Exec(`UPDATE subagents SET state = ? WHERE call = ? AND background = ? AND state = ?`, subagentEnded, call,
		background, subagentWorking)
}

// SpentBelow returns the spending that resulted from the user message that began the turn root, a row of turns: of
// that turn, of the turns that began with answers of subagents, and of the subagents in the background that these
// turns started. (The spending of a turn includes its inline subagents.) The turn with the ID own does not count, but
// its subagents in the background do. A subagent in the background counts with its whole allowance until its turn has a
// record of its spending. known is false if one of the other turns has no such record, because it runs or its workflow
// did not end it.
func (q querier) SpentBelow(root int64, own string) (sum turn.Spending, known bool, err error) {
	known = true
	// The root turn, and the turns that began with answers of subagents.
	err = q.Each(func(rows Rows) error {
		var spent sql.NullString
		if err := rows.Scan(&spent); err != nil {
			return err
		}
		known = known && spent.Valid
		return addSpent(&sum, spent)
	}, `SELECT t.spent FROM turns t WHERE (t.id = ?1 OR t.root = ?1) AND t.turn_id <> ?2`, root, own)
	if err != nil {
		return sum, false, err
	}
	// The subagents in the background that these turns started.
	err = q.Each(func(rows Rows) error {
		var granted string
		var spent sql.NullString
		if err := rows.Scan(&granted, &spent); err != nil {
			return err
		}
		if spent.Valid {
			return addSpent(&sum, spent)
		}
		var a turn.Allowance
		err := json.Unmarshal([]byte(granted), &a)
		sum = sum.Add(a.All())
		return err
	}, `SELECT a.granted, (SELECT c.spent FROM turns c JOIN sessions s ON s.id = c.session
			WHERE s.tenant = ?2 AND s.session_id = a.name AND c.message_id = a.name)
		FROM subagents a JOIN turns t ON t.id = a.turn WHERE (t.id = ?1 OR t.root = ?1) AND a.background`, root, q.Tenant)
	return sum, known, err
}

// addSpent adds the column turns.spent, JSON or null, to sum.
func addSpent(sum *turn.Spending, spent sql.NullString) error {
	if !spent.Valid {
		return nil
	}
	var s turn.Spending
	if err := json.Unmarshal([]byte(spent.String), &s); err != nil {
		return fmt.Errorf("reading what a turn has spent: %w", err)
	}
	*sum = sum.Add(s)
	return nil
}

// SpentBy returns what a subagent has used. If its turn has no record of its spending, because it runs or its workflow
// did not end it, this is the whole allowance that the subagent was granted.
func (q querier) SpentBy(a subagentRow) (s turn.Spending, err error) {
	var spent sql.NullString
	err = q.Row(`SELECT t.spent FROM turns t JOIN sessions s ON s.id = t.session
		WHERE s.tenant = ?1 AND s.session_id = ?2 AND t.message_id = ?2`, q.Tenant, a.Name).Scan(&spent)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && !spent.Valid:
		return a.Granted.All(), nil
	case err != nil:
		return s, err
	}
	return s, addSpent(&s, spent)
}

// StopSubagents stops the session's subagents in the background whose answers are not in the transcript yet. It
// returns the session IDs of the subagents that were not stopped before, or have not returned an answer: their turns
// may still run, or their answers may not have arrived yet.
func (t *tx) StopSubagents(session int64) ([]string, error) {
	// The ID of an answer's message is turn.SubagentAnswerID of the subagent's session.
	const undelivered = ` background AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session = subagents.session
		AND m.message_id = subagents.name || '/answer')`
	names, err := column[string](t.querier, `SELECT name FROM subagents WHERE session = ?1 AND`+undelivered+` AND
		(state <> ?2 OR EXISTS (SELECT 1 FROM calls c WHERE c.id = subagents.call AND c.late_count = 0)) ORDER BY call`,
		session, subagentStopped)
	if err != nil || len(names) == 0 {
		return names, err
	}
	return names, t.Exec(`UPDATE subagents SET state = ? WHERE session = ? AND`+undelivered, subagentStopped, session)
}

// KeepAnswer makes the caller's session show the answer of a subagent to its model with the next inference, as the
// notice of a late result. The answer is the last late result of the subagent's call.
func (t *tx) KeepAnswer(a subagentRow) error {
	return t.Exec(`UPDATE late_results SET notify_session = ? WHERE id = (SELECT max(id) FROM late_results WHERE call = ?)`,
		a.Session, a.Call)
}

// AnswerKept reports whether the next inference will show the answer of a subagent to the model: see KeepAnswer.
func (q querier) AnswerKept(a subagentRow) (kept bool, err error) {
	err = q.Row(`SELECT EXISTS (SELECT 1 FROM late_results WHERE call = ? AND notify_session IS NOT NULL)`, a.Call).
		Scan(&kept)
	return kept, err
}

// subagentSessions returns a query of the rows of sessions that the query first returns, and, recursively, of the
// sessions of their subagents for which the SQL condition holds.
func subagentSessions(first, condition string) string {
	return `WITH RECURSIVE below (id) AS (` + first + ` UNION SELECT x.id FROM below
		JOIN subagents a ON a.session = below.id AND ` + condition + `
		JOIN sessions p ON p.id = below.id JOIN sessions x ON x.tenant = p.tenant AND x.session_id = a.name)
		SELECT id FROM below`
}

// belowSession returns a query of session rows: the session whose row the SQL expression gives, and the sessions of
// its working subagents, of their working subagents, and so on.
func belowSession(expression string) string {
	return subagentSessions(`SELECT s0.id FROM sessions s0 WHERE s0.id = `+expression, workingSubagent)
}

// allBelow is belowSession with the sessions of subagents that have ended, too.
func allBelow(expression string) string {
	return subagentSessions(`SELECT s0.id FROM sessions s0 WHERE s0.id = `+expression, "TRUE")
}

// workingSubagent is an SQL condition of subagents a.
const workingSubagent = `a.state = '` + subagentWorking + `'`

// belowTurn returns a query of session rows: the sessions of the inline subagents that a turn waits for, and of their
// working subagents. The SQL expression gives the row of the turn. The turn's own session is not among them.
func belowTurn(expression string) string {
	return subagentSessions(`SELECT x0.id FROM subagents a0 JOIN sessions p0 ON p0.id = a0.session
		JOIN sessions x0 ON x0.tenant = p0.tenant AND x0.session_id = a0.name
		WHERE a0.turn = `+expression+` AND a0.state = '`+subagentWorking+`' AND NOT a0.background`, workingSubagent)
}
