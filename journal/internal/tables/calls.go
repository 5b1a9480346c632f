package tables

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/record"
)

// Call is a row of the ledger with its turn. row is 0 if the ledger does not have the call.
type Call struct {
	Scope
	Row            int64
	Rec            record.CallRecord
	Granted        int // the attempt that holds the claim; 0 if none does
	ArgumentsHash  string
	SettledAttempt int
	Arguments      Stored
	Text           Stored
	Continuation   sql.NullString // a blob's hash
	Media          Content        // JSON
	Notes          int            // tool_progress events so far
	Requests       bool           // the turn has requests about it
}

// CallColumns are what Call.Scan reads of a call c.
const CallColumns = `coalesce(c.id, 0), coalesce(c.step, 0), coalesce(c.call_id, ''), coalesce(c.wire_id, ''), coalesce(c.tool, ''),
	c.arguments, c.arguments_blob, coalesce(c.arguments_hash, ''), coalesce(c.attempt, 0), coalesce(c.claimed_attempt, 0), coalesce(c.runs, 0),
	coalesce(c.repeatable, FALSE), coalesce(c.worker, ''), coalesce(c.claimed_at, 0), coalesce(c.outcome, ''), c.text, c.text_blob,
	coalesce(c.full_blob, ''), coalesce(c.size, 0), coalesce(c.settled_attempt, 0), coalesce(c.settled_at, 0),
	coalesce(c.duration_ms, 0), coalesce(c.late_count, 0), coalesce(c.suspended_attempt, 0), c.continuation_blob, c.media, coalesce(c.notes, 0),
	coalesce(c.code, '')`

// Scan reads the fields before and then CallColumns.
func (c *Call) Scan(scan func(...any) error, before ...any) error {
	var claimed, settled int64
	r := &c.Rec
	err := scan(append(before, &c.Row, &r.Step, &r.Call.ID, &r.Call.WireID, &r.Call.Tool,
		&c.Arguments.Inline, &c.Arguments.Blob, &c.ArgumentsHash, &r.Attempt, &c.Granted, &r.Runs,
		&r.Repeatable, &r.Worker, &claimed, &r.Outcome, &c.Text.Inline, &c.Text.Blob,
		&r.FullBlob, &r.SizeBytes, &c.SettledAttempt, &settled, &r.DurationMS, &r.LateCount,
		&r.Suspended, &c.Continuation, &c.Media, &c.Notes, &r.Code)...)
	r.ClaimedAt, r.SettledAt = Instant(claimed), Instant(settled)
	return err
}

// Call returns a turn with one of its calls, if the ledger has it. ErrNotFound if the turn does not exist.
func (q Querier) Call(turnID, callID string) (c Call, err error) {
	row := q.Row(`SELECT `+scopeColumns+
		`, EXISTS (SELECT 1 FROM requests w WHERE w.turn = t.id AND (w.request_id = ?1 OR w.call_id = ?1)),
		`+CallColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN calls c ON c.turn = t.id AND c.call_id = ?1 WHERE t.turn_id = ?2`, callID, turnID)
	err = c.Scan(row.Scan, append(c.fields(), &c.Requests)...)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("turn %s: %w", turnID, record.ErrNotFound)
	}
	c.Rec.Turn = c.TurnID
	return c, err
}

// Load loads the fields that may be in blobs, unless the transaction has just stored them.
func (q Querier) Load(c *Call) (err error) {
	if c.Rec.Call.Arguments == "" {
		c.Rec.Call.Arguments, err = q.get(c.Arguments)
	}
	if err == nil && c.Rec.Text == "" {
		c.Rec.Text, err = q.get(c.Text)
	}
	if err != nil {
		return err
	}
	if c.Rec.Media, err = readMedia(c.Media); err != nil || !c.Continuation.Valid {
		return err
	}
	b, err := q.GetBlob(c.Continuation.String)
	c.Rec.Continuation = append([]byte{}, b...) // not nil even if it is empty
	return err
}
