package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/everturn/everturn/workflows/turn"
)

// Turn returns the tenant's turn with this ID.
func (db *DB) Turn(ctx context.Context, turnID string) (TurnRecord, error) {
	return get(ctx, db, "reading turn "+turnID,
		func(q querier) (TurnRecord, error) { return q.NamedTurn(turnID) })
}

// TurnConfig returns the turn config that Begin recorded, and the turn's session, tenant and state. The turn may
// belong to any tenant. ErrNotFound if the turn does not exist.
func (db *DB) TurnConfig(ctx context.Context, turnID string) (out TurnConfig, err error) {
	err = db.read(ctx, "reading the configuration of turn "+turnID, func(q querier) error {
		var config stored
		err := q.Row(`SELECT s.session_id, s.tenant, `+callerColumns+`, t.state, t.config, t.config_blob FROM turns t
			JOIN sessions s ON s.id = t.session
			WHERE t.turn_id = ?`, turnID).Scan(&out.Session, &out.Tenant, &out.Caller.Session, &out.Caller.Turn,
			&out.Caller.Call, &out.State, &config.Inline, &config.Blob)
		if err != nil {
			return err
		}
		out.Config, err = q.GetJSON(config)
		return err
	})
	return out, err
}

// Session returns the tenant's session with this ID.
func (db *DB) Session(ctx context.Context, id string) (SessionRecord, error) {
	return get(ctx, db, fmt.Sprintf("reading session %q", id),
		func(q querier) (SessionRecord, error) { return q.Session(id) })
}

// Sessions returns at most limit sessions of the tenant, the most recently updated first.
func (db *DB) Sessions(ctx context.Context, limit int) ([]SessionRecord, error) {
	return get(ctx, db, "listing the sessions", func(q querier) ([]SessionRecord, error) {
		return collect(q, scanSession,
			sessionQuery+`WHERE s.tenant = ? ORDER BY s.updated_at DESC, s.id DESC LIMIT ?`,
			q.Tenant, limit)
	})
}

// Turns returns the session's turns in the order in which they began.
func (db *DB) Turns(ctx context.Context, session string) ([]TurnRecord, error) {
	return getOfSession(ctx, db, session, "listing the turns",
		func(q querier, n int64) ([]TurnRecord, error) { return q.TurnsAfter(n, 0, math.MaxInt32) })
}

// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first if after is
// empty, in the order in which they began. ErrNotFound if the session does not exist or has no turn with this ID.
func (db *DB) TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error) {
	return getOfSession(ctx, db, session, "listing the turns after "+after,
		func(q querier, n int64) (out []TurnRecord, err error) {
			var afterRow int64 // 0: from the first turn
			if after != "" {
				err = q.Row(`SELECT id FROM turns WHERE turn_id = ? AND session = ?`, after, n).Scan(&afterRow)
			}
			if err != nil {
				return nil, err
			}
			return q.TurnsAfter(n, afterRow, limit)
		})
}

// Messages returns the session's messages with from <= seq <= to, in order, with their whole text and arguments.
func (db *DB) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	return getOfSession(ctx, db, session, "reading the transcript",
		func(q querier, n int64) ([]turn.Message, error) { return q.Transcript(n, from, to, unbounded) })
}

// Window returns the messages of the turn's session with from <= seq <= to, in order, with their provider items. If
// their texts and calls exceed maxBytes, it returns a *TooLargeError without loading them. Items that exceed maxBytes
// together are left out. ErrNotFound if the turn does not exist.
func (db *DB) Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error) {
	return getOfTurn(ctx, db, turnID, "reading the transcript",
		func(q querier, sc scope) ([]turn.Message, error) {
			parts, err := q.Segments(sc.Session, from, to)
			if err != nil {
				return nil, err
			}
			messages, err := q.messagesOf(parts, maxBytes)
			if err == nil {
				_, err = q.addItems(parts, maxBytes, messages)
			}
			return messages, err
		})
}

// turnColumns are the columns of turns t and their sessions s that scanTurn reads.
const turnColumns = `t.turn_id, s.session_id, t.workflow_id, t.run_id, t.agent, t.message_id, t.message_seq, t.state, t.reason, t.code,
	t.message, t.answer, t.usage, t.steps, t.calls, t.started_at, coalesce(t.ended_at, 0)`

// lastTurnColumns are turnColumns for a LEFT JOIN: a session without a turn of its own, such as a new fork, has a zero
// record.
const lastTurnColumns = `coalesce(t.turn_id, ''), CASE WHEN t.id IS NULL THEN '' ELSE s.session_id END, coalesce(t.workflow_id, ''), coalesce(t.run_id, ''),
	coalesce(t.agent, ''), coalesce(t.message_id, ''), coalesce(t.message_seq, 0), coalesce(t.state, ''), coalesce(t.reason, ''),
	coalesce(t.code, ''), coalesce(t.message, ''), coalesce(t.answer, ''), coalesce(t.usage, '{}'), coalesce(t.steps, 0),
	coalesce(t.calls, 0), coalesce(t.started_at, 0), coalesce(t.ended_at, 0)`

// scanTurn scans a row with turnColumns and, after them, the columns for the destinations in after.
func scanTurn(scan func(...any) error, after ...any) (r TurnRecord, err error) {
	var usage string
	var started, ended int64
	err = scan(append([]any{&r.ID, &r.Session, &r.WorkflowID, &r.RunID, &r.Agent, &r.MessageID, &r.MessageSeq, &r.State,
		&r.Reason, &r.Code,
		intoContent(&r.Message), intoContent(&r.Answer), &usage, &r.Steps, &r.Calls, &started, &ended}, after...)...)
	if err != nil {
		return r, err
	}
	r.StartedAt, r.EndedAt = instant(started), instant(ended)
	if err := json.Unmarshal([]byte(usage), &r.Usage); err != nil {
		return r, fmt.Errorf("reading the usage of turn %s: %w", r.ID, err)
	}
	return r, nil
}

// TurnRecord returns the turn that the SQL condition where selects, or sql.ErrNoRows. The tables are turns t and
// sessions s.
func (q querier) TurnRecord(where string, args ...any) (TurnRecord, error) {
	return scanTurn(q.Row(`SELECT `+turnColumns+` FROM turns t JOIN sessions s ON s.id = t.session WHERE `+where,
		args...).Scan)
}

// NamedTurn returns the tenant's turn with this ID, or sql.ErrNoRows.
func (q querier) NamedTurn(turnID string) (TurnRecord, error) {
	return q.TurnRecord(`t.turn_id = ? AND s.tenant = ?`, turnID, q.Tenant)
}

// callerColumns are those of turn.Caller, of sessions s.
const callerColumns = `s.caller_session, s.caller_turn, s.caller_call`

var sessionColumns = `s.session_id, s.tenant, s.agent, s.head_seq, s.head_hash, s.turns, s.created_at, s.updated_at, s.first_text,
	(SELECT count(*) FROM requests w WHERE w.session IN (` + belowSession(`s.id`) + `) AND w.status = ''),
	coalesce((SELECT p.session_id FROM sessions p WHERE p.id = s.parent), ''), coalesce(s.fork_seq, 0), ` + callerColumns

// sessionQuery selects sessions s for scanSession.
var sessionQuery = `SELECT ` + lastTurnColumns + `, ` + sessionColumns + ` FROM sessions s
	LEFT JOIN turns t ON t.id = (SELECT max(id) FROM turns WHERE session = s.id) `

// scanSession reads a row of sessionQuery.
func scanSession(scan func(...any) error) (r SessionRecord, err error) {
	var created, updated int64
	r.LastTurn, err = scanTurn(scan, &r.ID, &r.Tenant, &r.Agent, &r.Head.Seq, &r.Head.Hash, &r.Turns, &created, &updated,
		intoContent(&r.FirstText), &r.PendingRequests,
		&r.Parent, &r.ForkSeq, &r.Caller.Session, &r.Caller.Turn, &r.Caller.Call)
	r.CreatedAt, r.UpdatedAt = instant(created), instant(updated)
	if r.PendingRequests > 0 && r.LastTurn.State == turn.StateRunning { // the turn waits for a subagent's request
		r.LastTurn.State = turn.StateWaiting
	}
	return r, err
}

// Session returns the tenant's session with this ID, or sql.ErrNoRows.
func (q querier) Session(id string) (SessionRecord, error) {
	return scanSession(q.Row(sessionQuery+`WHERE s.tenant = ? AND s.session_id = ?`, q.Tenant, id).Scan)
}

// TurnsAfter returns at most limit turns of the session whose rows are above after, in the order in which they began.
func (q querier) TurnsAfter(session, after int64, limit int) ([]TurnRecord, error) {
	return collect(q, func(scan scanner) (TurnRecord, error) { return scanTurn(scan) }, `SELECT `+turnColumns+
		` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.session = ? AND t.id > ? ORDER BY t.id LIMIT ?`,
		session, after, limit)
}

// Inferences returns a turn's inferences, ordered by step, with the completions and messages of settled ones.
func (q querier) Inferences(sc scope) ([]Inference, error) {
	list, err := collect(q, func(scan scanner) (attemptRow, error) {
		a := attemptRow{scope: sc}
		err := a.Scan(scan)
		a.Inf.Key.Turn = sc.TurnID
		return a, err
	}, `SELECT `+inferenceColumns+` FROM inferences WHERE inferences.turn = ? ORDER BY inferences.step`, sc.Turn)
	if err != nil {
		return nil, err
	}
	var out []Inference
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
func (q querier) Calls(sc scope) ([]CallRecord, error) {
	list, err := collect(q, func(scan scanner) (callRow, error) {
		c := callRow{scope: sc}
		err := c.Scan(scan)
		c.Rec.Turn = sc.TurnID
		return c, err
	}, `SELECT `+callColumns+` FROM calls WHERE calls.turn = ? ORDER BY calls.step, length(calls.call_id), calls.call_id`, sc.Turn)
	if err != nil {
		return nil, err
	}
	var out []CallRecord
	for _, c := range list {
		if err := q.Load(&c); err != nil {
			return nil, err
		}
		out = append(out, c.Rec)
	}
	return out, nil
}
