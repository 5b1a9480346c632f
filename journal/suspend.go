package journal

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// SuspendCall ends an attempt in the middle of its call, because the server needs a response first: it withdraws the
// claim and keeps the continuation, opaque bytes, at most MaxContinuationBytes. The next claim is granted and returns
// it in CallRecord.Continuation; there is no second tool_call_started. Exports leave it out, because it is meant only
// for the server and its callers. If no attempt continues the call, its outcome is unknown, because the server may have
// begun. A repetition changes nothing. ErrStale if the call is settled or another attempt has claimed it, ErrClosed if
// the turn has ended, ErrNotFound if the attempt never claimed the call.
func (db *DB) SuspendCall(ctx context.Context, turnID, callID string, attempt int, continuation []byte) error {
	return db.writeTurn(ctx, turnID, callName("suspending", turnID, callID), func(t *tx) error {
		if n := len(continuation); n > MaxContinuationBytes {
			return fmt.Errorf("its continuation is %d bytes; the maximum is %d", n, MaxContinuationBytes)
		}
		c, err := t.Call(turnID, callID)
		if err != nil {
			return err
		}
		isRepetition := c.Row != 0 && c.Rec.ClaimedAttempt == 0 && attempt == c.Rec.Suspended &&
			c.Continuation.String == HashOf(continuation)
		// The claim of a repetition is withdrawn already, which is an error only if the call or its turn has ended.
		if err := checkClaim(c, attempt); err != nil && (!isRepetition || c.Closed || c.Rec.Outcome != "") {
			return err
		}
		if isRepetition {
			return nil
		}
		hash, err := t.PutBlob("application/octet-stream", continuation)
		if err != nil {
			return err
		}
		return t.Exec(`UPDATE calls SET claimed_attempt = 0, suspended_attempt = ?, continuation_blob = ? WHERE id = ?`,
			attempt, hash, c.Row)
	})
}

// checkClaim returns an error unless the attempt holds the claim of an open call: ErrNotFound if it never claimed the
// call, ErrClosed if the turn has ended, ErrStale if the call is settled or the claim is withdrawn or another
// attempt's.
func checkClaim(c callRow, attempt int) error {
	switch {
	case c.Row == 0 || attempt < 1 || attempt > c.Rec.Attempt:
		return fmt.Errorf("attempt %d never claimed it: %w", attempt, ErrNotFound)
	case c.Closed:
		return ErrClosed
	case c.Rec.Outcome != "":
		return fmt.Errorf("it is settled: %w", ErrStale)
	case c.Rec.ClaimedAttempt != attempt:
		return fmt.Errorf("attempt %d has no claim on it: %w", attempt, ErrStale)
	}
	return nil
}

// NoteCall appends a tool_progress event for the attempt that holds the call's claim. After MaxNotes events of a
// call, it changes nothing and returns no error. NoteCall is not idempotent: like AppendEvents, it appends again if it
// is called again. ErrStale if the call is settled or suspended or another attempt has claimed it, ErrClosed if
// the turn has ended, ErrNotFound if the attempt never claimed the call.
func (db *DB) NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress,
	at time.Time) error {
	return db.writeTurn(ctx, turnID, callName("noting the progress of", turnID, callID), func(t *tx) error {
		c, err := t.Call(turnID, callID)
		if err == nil {
			err = checkClaim(c, attempt)
		}
		if err != nil || c.Notes >= MaxNotes {
			return err
		}
		event := turn.Event{Kind: turn.EventToolProgress, Step: c.Rec.Step, Attempt: attempt, At: at}
		if done, err := t.isAppended(&c.scope, event); done || err != nil {
			return err
		}
		if err := t.Exec(`UPDATE calls SET notes = notes + 1 WHERE id = ?`, c.Row); err != nil {
			return err
		}
		return t.emitData(&c.scope, event, turn.ProgressEvent{CallID: c.Rec.Call.ID, Tool: c.Rec.Call.Tool,
			ToolProgress: turn.ToolProgress{
				Done: finite(p.Done), Total: finite(p.Total), Message: preview(CleanText(p.Message),
					PreviewBytes),
				Output: preview(CleanText(p.Output), turn.MaxOutput), Offset: max(p.Offset, 0),
				Session: preview(CleanText(p.Session), PreviewBytes),
			}})
	})
}

// finite returns f, or 0 if JSON cannot represent it.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}
