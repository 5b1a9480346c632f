package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// claimSubagent records the subagent of a call that a claim was granted for, and returns the one that the journal has.
func (t *tx) claimSubagent(c call, a Subagent) (*Subagent, error) {
	if c.Rec.Outcome == "" {
		if err := t.InsertSubagent(c.Scope, c.Row, c.Rec.Call.ID, a); err != nil {
			return nil, err
		}
	}
	has, err := t.Subagent(c.TurnID, c.Rec.Call.ID)
	if errors.Is(err, sql.ErrNoRows) { // the call was settled before it was claimed
		return nil, nil
	}
	return &has.Subagent, err
}

// Subagent returns the subagent that a turn's call has started. ErrNotFound.
func (db *DB) Subagent(ctx context.Context, turnID, callID string) (Subagent, error) {
	return tables.Get(ctx, db.tables, callName("reading the subagent of", turnID, callID),
		func(q querier) (Subagent, error) {
			a, err := q.Subagent(turnID, callID)
			return a.Subagent, err
		})
}

// SpentBySubagent returns what the subagent of a call has used, with those below it: all that it was granted, unless its
// turn has ended in a way that tells. ErrNotFound.
func (db *DB) SpentBySubagent(ctx context.Context, turnID, callID string) (turn.Spending, error) {
	return tables.Get(ctx, db.tables, callName("reading what was used by the subagent of", turnID, callID),
		func(q querier) (spent turn.Spending, err error) {
			a, err := q.Subagent(turnID, callID)
			if err != nil {
				return spent, err
			}
			return q.SpentBy(a)
		})
}

// answered returns the subagent whose answer a message of the session is; the zero value for every other message.
func answered(q querier, sc scope, messageID string) (a tables.Subagent, err error) {
	turnID, callID, ok := turn.AnsweredCall(messageID)
	if !ok {
		return a, nil
	}
	a, err = q.Subagent(turnID, callID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return a, err
	}
	if err != nil || !a.Background || a.Session != sc.Session || a.State == tables.SubagentWorking {
		return a, fmt.Errorf("message %q is no answer of a subagent of this session: %w", record.Preview(messageID, 200),
			ErrNotFound)
	}
	return a, nil
}

// Origin returns what the message of a subagent's answer comes of. own is the turn that begins with it and does not count.
// ErrNotFound if the journal has no such answer for the session.
func (db *DB) Origin(ctx context.Context, session, messageID, own string) (Origin, error) {
	return tables.GetOfSession(ctx, db.tables, session, "looking for what an answer comes of",
		func(q querier, n int64) (out Origin, err error) {
			a, err := answered(q, scope{Session: n}, messageID)
			if err != nil {
				return out, err
			}
			var root int64
			err = q.Row(`SELECT c.turn_id, r.turn_id, r.id FROM turns c JOIN turns r ON r.id = coalesce(c.root, c.id)
				WHERE c.id = ?`, a.Turn).Scan(&out.Turn, &out.Root, &root)
			if err == nil {
				out.Spent, out.Known, err = q.SpentBelow(root, own)
			}
			return out, err
		})
}

// StopSubagents stops the session's subagents in the background: answers that have not begun a turn yet begin none. It
// returns the sessions of those that may still be at work.
func (db *DB) StopSubagents(ctx context.Context, session string) (names []string, err error) {
	err = db.write(ctx, fmt.Sprintf("stopping the subagents of session %q", session), func(t *tx) error {
		if err := t.LockSession(session); err != nil {
			return err
		}
		var n int64
		err := t.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant, session).Scan(&n)
		if err != nil {
			return tables.IgnoreNoRows(err)
		}
		names, err = t.StopSubagents(n)
		return err
	})
	return names, err
}

// AnswerKept reports whether the session's next inference brings a subagent's answer to the model, because the answer
// begins no turn: see BeginResult.Kept.
func (db *DB) AnswerKept(ctx context.Context, session, messageID string) (bool, error) {
	if _, _, ok := turn.AnsweredCall(messageID); !ok {
		return false, nil
	}
	return tables.GetOfSession(ctx, db.tables, session, "looking for an answer",
		func(q querier, n int64) (bool, error) {
			a, err := answered(q, scope{Session: n}, messageID)
			if err != nil {
				return false, err
			}
			return q.AnswerKept(a)
		})
}
