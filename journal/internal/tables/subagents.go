package tables

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// The states of subagents.
const (
	SubagentWorking = "working"
	SubagentEnded   = "ended"
	SubagentStopped = "stopped" // a user stopped it: its answer begins no turn
)

// Subagent is a row of the table subagents.
type Subagent struct {
	record.Subagent
	Call    int64  // the row of the call that started it; 0 in the zero Subagent
	Turn    int64  // the row of the caller's turn
	Session int64  // the row of the caller's session
	Name    string // the ID of its own session
	State   string
}

// Subagent returns the subagent that a turn's call has started, or sql.ErrNoRows.
func (q Querier) Subagent(turnID, callID string) (a Subagent, err error) {
	var granted string
	err = q.Row(`SELECT a.call, a.turn, a.session, a.name, a.background, a.granted, a.state FROM subagents a
		JOIN calls c ON c.id = a.call JOIN turns t ON t.id = a.turn JOIN sessions s ON s.id = a.session
		WHERE t.turn_id = ? AND c.call_id = ? AND s.tenant = ?`, turnID, callID, q.Tenant).
		Scan(&a.Call, &a.Turn, &a.Session, &a.Name, &a.Background, &granted, &a.State)
	if err == nil {
		err = json.Unmarshal([]byte(granted), &a.Granted)
	}
	return a, err
}

// InsertSubagent records that a call has started a subagent, once.
func (t *Tx) InsertSubagent(sc Scope, call int64, callID string, a record.Subagent) error {
	return t.Exec(`INSERT INTO subagents (call, turn, session, name, background, granted, state)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, call, sc.Turn, sc.Session, turn.SubagentSession(sc.TurnID, callID),
		a.Background, string(record.MustJSON(a.Granted)), SubagentWorking)
}

// EndSubagent records that the subagent of a call has ended, unless it was stopped. background selects whether this
// ends a subagent in the background or an inline one; the other kind does not change.
func (t *Tx) EndSubagent(call int64, background bool) error {
	return t.Exec(`UPDATE subagents SET state = ? WHERE call = ? AND background = ? AND state = ?`, SubagentEnded, call,
		background, SubagentWorking)
}

// SpentBelow returns the spending that resulted from the user message that began the turn root, a row of turns: of
// that turn, of the turns that began with answers of subagents, and of the subagents in the background that these
// turns started. (The spending of a turn includes its inline subagents.) The turn with the ID own does not count, but
// its subagents in the background do. A subagent in the background counts with its whole allowance until its turn has a
// record of its spending. known is false if one of the other turns has no such record, because it runs or its workflow
// did not end it.
func (q Querier) SpentBelow(root int64, own string) (sum turn.Spending, known bool, err error) {
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
func (q Querier) SpentBy(a Subagent) (s turn.Spending, err error) {
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
func (t *Tx) StopSubagents(session int64) ([]string, error) {
	// The ID of an answer's message is turn.SubagentAnswerID of the subagent's session.
	const undelivered = ` background AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session = subagents.session
		AND m.message_id = subagents.name || '/answer')`
	names, err := Column[string](t.Querier, `SELECT name FROM subagents WHERE session = ?1 AND`+undelivered+` AND
		(state <> ?2 OR EXISTS (SELECT 1 FROM calls c WHERE c.id = subagents.call AND c.late_count = 0)) ORDER BY call`,
		session, SubagentStopped)
	if err != nil || len(names) == 0 {
		return names, err
	}
	return names, t.Exec(`UPDATE subagents SET state = ? WHERE session = ? AND`+undelivered, SubagentStopped, session)
}

// KeepAnswer makes the caller's session show the answer of a subagent to its model with the next inference, as the
// notice of a late result. The answer is the last late result of the subagent's call.
func (t *Tx) KeepAnswer(a Subagent) error {
	return t.Exec(`UPDATE late_results SET notify_session = ? WHERE id = (SELECT max(id) FROM late_results WHERE call = ?)`,
		a.Session, a.Call)
}

// AnswerKept reports whether the next inference will show the answer of a subagent to the model: see KeepAnswer.
func (q Querier) AnswerKept(a Subagent) (kept bool, err error) {
	err = q.Row(`SELECT EXISTS (SELECT 1 FROM late_results WHERE call = ? AND notify_session IS NOT NULL)`, a.Call).
		Scan(&kept)
	return kept, err
}

// subagentSessions returns a query of the rows of sessions that the query first returns, and, recursively, of the
// sessions of their working subagents (SubagentWorking).
func subagentSessions(first string) string {
	return `WITH RECURSIVE below (id) AS (` + first + ` UNION SELECT x.id FROM below
		JOIN subagents a ON a.session = below.id AND a.state = '` + SubagentWorking + `'
		JOIN sessions p ON p.id = below.id JOIN sessions x ON x.tenant = p.tenant AND x.session_id = a.name)
		SELECT id FROM below`
}

// BelowSession returns a query of session rows: the session whose row the SQL expression gives, and the sessions of
// its working subagents, of their working subagents, and so on.
func BelowSession(expression string) string {
	return subagentSessions(`SELECT s0.id FROM sessions s0 WHERE s0.id = ` + expression)
}

// BelowTurn returns a query of session rows: the sessions of the inline subagents that a turn waits for, and of their
// working subagents. The SQL expression gives the row of the turn. The turn's own session is not among them.
func BelowTurn(expression string) string {
	return subagentSessions(`SELECT x0.id FROM subagents a0 JOIN sessions p0 ON p0.id = a0.session
		JOIN sessions x0 ON x0.tenant = p0.tenant AND x0.session_id = a0.name
		WHERE a0.turn = ` + expression + ` AND a0.state = '` + SubagentWorking + `' AND NOT a0.background`)
}
