package tables

import (
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// TurnColumns are the columns of turns t and their sessions s that ScanTurn reads.
const TurnColumns = `t.turn_id, s.session_id, t.workflow_id, t.run_id, t.agent, t.message_id, t.message_seq, t.state, t.reason, t.code,
	t.message, t.answer, t.usage, t.steps, t.calls, t.started_at, coalesce(t.ended_at, 0)`

// lastTurnColumns are TurnColumns for a LEFT JOIN: a session without a turn of its own, such as a new fork, has a zero
// record.
const lastTurnColumns = `coalesce(t.turn_id, ''), CASE WHEN t.id IS NULL THEN '' ELSE s.session_id END, coalesce(t.workflow_id, ''), coalesce(t.run_id, ''),
	coalesce(t.agent, ''), coalesce(t.message_id, ''), coalesce(t.message_seq, 0), coalesce(t.state, ''), coalesce(t.reason, ''),
	coalesce(t.code, ''), coalesce(t.message, ''), coalesce(t.answer, ''), coalesce(t.usage, '{}'), coalesce(t.steps, 0),
	coalesce(t.calls, 0), coalesce(t.started_at, 0), coalesce(t.ended_at, 0)`

// ScanTurn scans a row with TurnColumns and, after them, the columns for the destinations in after.
func ScanTurn(scan func(...any) error, after ...any) (r record.TurnRecord, err error) {
	var usage string
	var started, ended int64
	err = scan(append([]any{&r.ID, &r.Session, &r.WorkflowID, &r.RunID, &r.Agent, &r.MessageID, &r.MessageSeq, &r.State,
		&r.Reason, &r.Code,
		Into(&r.Message), Into(&r.Answer), &usage, &r.Steps, &r.Calls, &started, &ended}, after...)...)
	if err != nil {
		return r, err
	}
	r.StartedAt, r.EndedAt = Instant(started), Instant(ended)
	if err := json.Unmarshal([]byte(usage), &r.Usage); err != nil {
		return r, fmt.Errorf("reading the usage of turn %s: %w", r.ID, err)
	}
	return r, nil
}

// TurnRecord returns the turn that the SQL condition where selects, or sql.ErrNoRows. The tables are turns t and
// sessions s.
func (q Querier) TurnRecord(where string, args ...any) (record.TurnRecord, error) {
	return ScanTurn(q.Row(`SELECT `+TurnColumns+` FROM turns t JOIN sessions s ON s.id = t.session WHERE `+where,
		args...).Scan)
}

// NamedTurn returns the tenant's turn with this ID, or sql.ErrNoRows.
func (q Querier) NamedTurn(turnID string) (record.TurnRecord, error) {
	return q.TurnRecord(`t.turn_id = ? AND s.tenant = ?`, turnID, q.Tenant)
}

var sessionColumns = `s.session_id, s.tenant, s.agent, s.head_seq, s.head_hash, s.turns, s.created_at, s.updated_at, s.first_text,
	(SELECT count(*) FROM requests w WHERE w.session IN (` + BelowSession(`s.id`) + `) AND w.status = ''),
	coalesce((SELECT p.session_id FROM sessions p WHERE p.id = s.parent), ''), coalesce(s.fork_seq, 0)`

// SessionQuery selects sessions s for ScanSession.
var SessionQuery = `SELECT ` + lastTurnColumns + `, ` + sessionColumns + ` FROM sessions s
	LEFT JOIN turns t ON t.id = (SELECT max(id) FROM turns WHERE session = s.id) `

// ScanSession reads a row of SessionQuery.
func ScanSession(scan func(...any) error) (r record.SessionRecord, err error) {
	var created, updated int64
	r.LastTurn, err = ScanTurn(scan, &r.ID, &r.Tenant, &r.Agent, &r.Head.Seq, &r.Head.Hash, &r.Turns, &created, &updated,
		Into(&r.FirstText), &r.PendingRequests,
		&r.Parent, &r.ForkSeq)
	r.CreatedAt, r.UpdatedAt = Instant(created), Instant(updated)
	if r.PendingRequests > 0 && r.LastTurn.State == turn.StateRunning { // the turn waits for a subagent's request
		r.LastTurn.State = turn.StateWaiting
	}
	return r, err
}

// Session returns the tenant's session with this ID, or sql.ErrNoRows.
func (q Querier) Session(id string) (record.SessionRecord, error) {
	return ScanSession(q.Row(SessionQuery+`WHERE s.tenant = ? AND s.session_id = ?`, q.Tenant, id).Scan)
}

// TurnsAfter returns at most limit turns of the session whose rows are above after, in the order in which they began.
func (q Querier) TurnsAfter(session, after int64, limit int) ([]record.TurnRecord, error) {
	return Collect(q, func(scan Scanner) (record.TurnRecord, error) { return ScanTurn(scan) }, `SELECT `+TurnColumns+
		` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.session = ? AND t.id > ? ORDER BY t.id LIMIT ?`,
		session, after, limit)
}

// Inferences returns a turn's inferences, ordered by step, with the completions and messages of settled ones.
func (q Querier) Inferences(sc Scope) ([]record.Inference, error) {
	list, err := Collect(q, func(scan Scanner) (Attempt, error) {
		a := Attempt{Scope: sc}
		err := a.Scan(scan)
		a.Inf.Key.Turn = sc.TurnID
		return a, err
	}, `SELECT `+InferenceColumns+` FROM inferences i WHERE i.turn = ? ORDER BY i.step`, sc.Turn)
	if err != nil {
		return nil, err
	}
	var out []record.Inference
	for _, a := range list {
		if a.Inf.Settled {
			if a.Inf, err = q.LoadSettled(a); err != nil {
				return nil, err
			}
		}
		out = append(out, a.Inf)
	}
	return out, nil
}

// Calls returns a turn's calls, ordered by step and index. A call's ID is "<step>.<index>", so within a step a longer
// ID has a higher index.
func (q Querier) Calls(sc Scope) ([]record.CallRecord, error) {
	list, err := Collect(q, func(scan Scanner) (Call, error) {
		c := Call{Scope: sc}
		err := c.Scan(scan)
		c.Rec.Turn = sc.TurnID
		return c, err
	}, `SELECT `+CallColumns+` FROM calls c WHERE c.turn = ? ORDER BY c.step, length(c.call_id), c.call_id`, sc.Turn)
	if err != nil {
		return nil, err
	}
	var out []record.CallRecord
	for _, c := range list {
		if err := q.Load(&c); err != nil {
			return nil, err
		}
		out = append(out, c.Rec)
	}
	return out, nil
}
