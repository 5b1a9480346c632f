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

// claimSubagent records a as the subagent of a claimed call, unless the call has one, and returns the call's subagent:
// that of the first claim. It returns nil if the call was settled before any claim.
func (t *tx) claimSubagent(c call, a Subagent) (*Subagent, error) {
	if c.Rec.Outcome == "" {
		if err := t.InsertSubagent(c.Scope, c.Row, c.Rec.Call.ID, a); err != nil {
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
	return tables.Get(ctx, db.tables, callName("reading the subagent of", turnID, callID),
		func(q querier) (Subagent, error) {
			a, err := q.Subagent(turnID, callID)
			return a.Subagent, err
		})
}

// SpentBySubagent returns what the subagent of a call has used, its own subagents included. If its turn has not
// ended, or ended without a record of its spending, this is the whole allowance that it was granted. ErrNotFound if
// the call has started no subagent.
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

// answeringSubagent returns the subagent whose answer the message is, from the form of the message's ID; the zero value
// if the ID is not that of an answer. ErrNotFound if the ID has this form, but does not belong to a subagent in the
// background of this session that has ended or was stopped: a client may send any message ID.
func answeringSubagent(q querier, sc scope, messageID string) (a tables.Subagent, err error) {
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

// Origin returns the turn that called a subagent, the user message behind that turn, and the spending of everything
// that resulted from this user message. messageID is the ID of the subagent's answer. own is the ID of the turn that
// begins with the answer; its spending does not count. ErrNotFound if the session has no such answer.
func (db *DB) Origin(ctx context.Context, session, messageID, own string) (Origin, error) {
	return tables.GetOfSession(ctx, db.tables, session, "looking for what an answer comes of",
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
			return tables.IgnoreNoRows(err)
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
	if _, _, ok := turn.AnsweredCall(messageID); !ok {
		return false, nil
	}
	return tables.GetOfSession(ctx, db.tables, session, "looking for an answer",
		func(q querier, n int64) (bool, error) {
			a, err := answeringSubagent(q, scope{Session: n}, messageID)
			if err != nil {
				return false, err
			}
			return q.AnswerKept(a)
		})
}
