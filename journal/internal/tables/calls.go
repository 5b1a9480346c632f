package tables

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal/record"
)

// Call is a tool call of a turn, as the ledger has it.
type Call struct {
	Scope
	Row            int64 // of the ledger; 0 if the ledger does not have the call
	Rec            record.CallRecord
	Granted        int // the attempt that holds the claim; 0 if none does
	ArgumentsHash  string
	SettledAttempt int // the attempt whose result is the outcome; 0 if the call is open
	Arguments      Stored
	Text           Stored
	Continuation   sql.NullString // a blob's hash
	Media          Content        // JSON
	Notes          int            // tool_progress events so far
	Requests       bool           // the turn has requests about it
}

// CallColumns are the columns of calls c that Call.Scan reads. They may be null, for a LEFT JOIN.
const CallColumns = `coalesce(c.id, 0), coalesce(c.step, 0), coalesce(c.call_id, ''), coalesce(c.wire_id, ''), coalesce(c.tool, ''),
	c.arguments, c.arguments_blob, coalesce(c.arguments_hash, ''), coalesce(c.attempt, 0), coalesce(c.claimed_attempt, 0), coalesce(c.runs, 0),
	coalesce(c.repeatable, FALSE), coalesce(c.worker, ''), coalesce(c.claimed_at, 0), coalesce(c.outcome, ''), c.text, c.text_blob,
	coalesce(c.full_blob, ''), coalesce(c.size, 0), coalesce(c.settled_attempt, 0), coalesce(c.settled_at, 0),
	coalesce(c.duration_ms, 0), coalesce(c.late_count, 0), coalesce(c.suspended_attempt, 0), c.continuation_blob, c.media, coalesce(c.notes, 0),
	coalesce(c.code, '')`

// Scan scans a row into c. The columns of the row are those for the destinations in before, followed by CallColumns.
// Scan does not load blobs: see Querier.Load.
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

// Call returns a call of a turn. If the ledger does not have the call, Row is 0 and only Scope and Requests are set.
// The error wraps record.ErrNotFound if the turn does not exist.
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

// Load sets the fields of c.Rec that may be in blobs: arguments, text, media and continuation. It keeps arguments and
// text that are set already, because the transaction has just stored them.
func (q Querier) Load(c *Call) (err error) {
	if c.Rec.Call.Arguments == "" {
		c.Rec.Call.Arguments, err = q.getText(c.Arguments)
	}
	if err == nil && c.Rec.Text == "" {
		c.Rec.Text, err = q.getText(c.Text)
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
