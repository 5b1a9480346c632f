package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/everturn/everturn/workflows/turn"
)

const turnColumns = `t.turn_id, s.session_id, t.workflow_id, t.run_id, t.agent, t.message_id, t.message_seq, t.state, t.reason, t.code,
	t.message, t.answer, t.usage, t.steps, t.calls, t.started_at, coalesce(t.ended_at, 0)`

// lastTurnColumns are turnColumns for a turn that may be missing: a fork begins without a turn.
const lastTurnColumns = `coalesce(t.turn_id, ''), CASE WHEN t.id IS NULL THEN '' ELSE s.session_id END, coalesce(t.workflow_id, ''), coalesce(t.run_id, ''),
	coalesce(t.agent, ''), coalesce(t.message_id, ''), coalesce(t.message_seq, 0), coalesce(t.state, ''), coalesce(t.reason, ''),
	coalesce(t.code, ''), coalesce(t.message, ''), coalesce(t.answer, ''), coalesce(t.usage, '{}'), coalesce(t.steps, 0),
	coalesce(t.calls, 0), coalesce(t.started_at, 0), coalesce(t.ended_at, 0)`

// scanTurn reads turnColumns and then the fields in after.
func scanTurn(scan func(...any) error, after ...any) (r TurnRecord, err error) {
	var usage string
	var started, ended int64
	err = scan(append([]any{&r.ID, &r.Session, &r.WorkflowID, &r.RunID, &r.Agent, &r.MessageID, &r.MessageSeq, &r.State,
		&r.Reason, &r.Code,
		into(&r.Message), into(&r.Answer), &usage, &r.Steps, &r.Calls, &started, &ended}, after...)...)
	if err != nil {
		return r, err
	}
	r.StartedAt, r.EndedAt = instant(started), instant(ended)
	if err := json.Unmarshal([]byte(usage), &r.Usage); err != nil {
		return r, fmt.Errorf("reading the usage of turn %s: %w", r.ID, err)
	}
	return r, nil
}

// turnRecord returns the turn that the condition where selects, or sql.ErrNoRows.
func (q querier) turnRecord(where string, args ...any) (TurnRecord, error) {
	return scanTurn(q.row(`SELECT `+turnColumns+` FROM turns t JOIN sessions s ON s.id = t.session WHERE `+where,
		args...).Scan)
}

// namedTurn returns the tenant's turn with this ID, or sql.ErrNoRows.
func (q querier) namedTurn(turnID string) (TurnRecord, error) {
	return q.turnRecord(`t.turn_id = ? AND s.tenant = ?`, turnID, q.tenant)
}

// Turn returns the tenant's turn with this ID.
func (s *DB) Turn(ctx context.Context, turnID string) (TurnRecord, error) {
	return get(ctx, s, "reading turn "+turnID, func(q querier) (TurnRecord, error) { return q.namedTurn(turnID) })
}

// TurnConfig returns the turn config that Begin recorded, whatever a workflow says later. ErrNotFound.
func (s *DB) TurnConfig(ctx context.Context, turnID string) (out TurnConfig, err error) {
	err = s.read(ctx, "reading the configuration of turn "+turnID, func(q querier) error {
		var config stored
		err := q.row(`SELECT s.session_id, s.tenant, t.state, t.config, t.config_blob FROM turns t
			JOIN sessions s ON s.id = t.session
			WHERE t.turn_id = ?`, turnID).Scan(&out.Session, &out.Tenant, &out.State, &config.inline, &config.blob)
		if err != nil {
			return err
		}
		out.Config, err = q.getJSON(config)
		return err
	})
	return out, err
}

// StepMessage returns the assistant's message that settled the inference; ErrNotFound if it is not settled.
func (s *DB) StepMessage(ctx context.Context, key StepKey) (out turn.Message, err error) {
	err = s.read(ctx, stepName("reading the message of", key), func(q querier) error {
		a, err := q.attempt(key)
		if err != nil {
			return err
		}
		if !a.inf.Settled {
			return ErrNotFound
		}
		list, err := q.messages(a.session, a.inf.Head.Seq, a.inf.Head.Seq)
		if err == nil && len(list) == 1 {
			out = list[0]
		}
		return err
	})
	return out, err
}

// Call returns the call with its arguments and outcome; ErrNotFound if it was never claimed.
func (s *DB) Call(ctx context.Context, turnID, callID string) (CallRecord, error) {
	return getOfNamedTurn(ctx, s, turnID, "reading call "+callID, func(q querier, _ scope) (CallRecord, error) {
		c, err := q.call(turnID, callID)
		if err == nil && c.row == 0 {
			err = ErrNotFound
		}
		if err == nil {
			err = q.load(&c)
		}
		return c.rec, err
	})
}

const sessionColumns = `s.session_id, s.tenant, s.agent, s.head_seq, s.head_hash, s.turns, s.created_at, s.updated_at, s.first_text,
	(SELECT count(*) FROM requests w WHERE w.session = s.id AND w.status = ''),
	coalesce((SELECT p.session_id FROM sessions p WHERE p.id = s.parent), ''), coalesce(s.fork_seq, 0)`

const sessionQuery = `SELECT ` + lastTurnColumns + `, ` + sessionColumns + ` FROM sessions s
	LEFT JOIN turns t ON t.id = (SELECT max(id) FROM turns WHERE session = s.id) `

func scanSession(scan func(...any) error) (r SessionRecord, err error) {
	var created, updated int64
	r.LastTurn, err = scanTurn(scan, &r.ID, &r.Tenant, &r.Agent, &r.Head.Seq, &r.Head.Hash, &r.Turns, &created, &updated,
		into(&r.FirstText), &r.PendingRequests,
		&r.Parent, &r.ForkSeq)
	r.CreatedAt, r.UpdatedAt = instant(created), instant(updated)
	return r, err
}

// Session returns the tenant's session with this ID.
func (s *DB) Session(ctx context.Context, id string) (SessionRecord, error) {
	return get(ctx, s, fmt.Sprintf("reading session %q", id),
		func(q querier) (SessionRecord, error) { return q.session(id) })
}

func (q querier) session(id string) (SessionRecord, error) {
	return scanSession(q.row(sessionQuery+`WHERE s.tenant = ? AND s.session_id = ?`, q.tenant, id).Scan)
}

// Sessions returns the latest limit sessions, the most recently active first.
func (s *DB) Sessions(ctx context.Context, limit int) ([]SessionRecord, error) {
	return get(ctx, s, "listing the sessions", func(q querier) ([]SessionRecord, error) {
		return collect(q, scanSession, sessionQuery+`WHERE s.tenant = ? ORDER BY s.updated_at DESC, s.id DESC LIMIT ?`,
			q.tenant, limit)
	})
}

// Turns returns the session's turns in the order in which they began.
func (s *DB) Turns(ctx context.Context, session string) ([]TurnRecord, error) {
	return getOfSession(ctx, s, session, "listing the turns", func(q querier, n int64) ([]TurnRecord, error) {
		return q.turnsAfter(n, 0, math.MaxInt32)
	})
}

// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first if after is
// empty, in the order in which they began. ErrNotFound, also for a turn of another session.
func (s *DB) TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error) {
	return getOfSession(ctx, s, session, "listing the turns after "+after,
		func(q querier, n int64) (out []TurnRecord, err error) {
			var last int64
			if after != "" {
				err = q.row(`SELECT id FROM turns WHERE turn_id = ? AND session = ?`, after, n).Scan(&last)
			}
			if err != nil {
				return nil, err
			}
			return q.turnsAfter(n, last, limit)
		})
}

func (q querier) turnsAfter(session, after int64, limit int) ([]TurnRecord, error) {
	return collect(q, func(scan scanner) (TurnRecord, error) { return scanTurn(scan) }, `SELECT `+turnColumns+
		` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.session = ? AND t.id > ? ORDER BY t.id LIMIT ?`,
		session, after, limit)
}

// Inferences returns the ledger of a turn's inferences, ordered by step.
func (s *DB) Inferences(ctx context.Context, turnID string) ([]Inference, error) {
	return getOfNamedTurn(ctx, s, turnID, "listing the inferences", querier.inferences)
}

func (q querier) inferences(sc scope) ([]Inference, error) {
	list, err := collect(q, func(scan scanner) (attempt, error) {
		a := attempt{scope: sc}
		err := a.scan(scan)
		a.inf.Key.Turn = sc.turnID
		return a, err
	}, `SELECT `+inferenceColumns+` FROM inferences i WHERE i.turn = ? ORDER BY i.step`, sc.turn)
	if err != nil {
		return nil, err
	}
	var out []Inference
	for _, a := range list {
		if a.inf.Settled {
			if a.inf, err = q.loadSettled(a); err != nil {
				return nil, err
			}
		}
		out = append(out, a.inf)
	}
	return out, nil
}

// Calls returns the ledger of a turn's calls, ordered by step and index.
func (s *DB) Calls(ctx context.Context, turnID string) ([]CallRecord, error) {
	return getOfNamedTurn(ctx, s, turnID, "listing the calls", querier.calls)
}

func (q querier) calls(sc scope) ([]CallRecord, error) {
	list, err := collect(q, func(scan scanner) (call, error) {
		c := call{scope: sc}
		err := c.scan(scan)
		c.rec.Turn = sc.turnID
		return c, err
	}, `SELECT `+callColumns+` FROM calls c WHERE c.turn = ? ORDER BY c.step, length(c.call_id), c.call_id`, sc.turn)
	if err != nil {
		return nil, err
	}
	var out []CallRecord
	for _, c := range list {
		if err := q.load(&c); err != nil {
			return nil, err
		}
		out = append(out, c.rec)
	}
	return out, nil
}
