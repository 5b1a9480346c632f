package journal

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// SuspendCall withdraws a claim in the middle of its call, because the server needs a response first, and keeps the
// continuation. The next attempt is granted and finds it in Claim.Record.Continuation; there is no second
// tool_call_started. A suspended call that is never continued ends as unknown: its server may have begun. ErrStale if
// the call is settled or another attempt has claimed it, ErrClosed, ErrNotFound.
func (s *DB) SuspendCall(ctx context.Context, in SettleInput) error {
	return s.writeTurn(ctx, in.Turn, callName("suspending", in.Turn, in.CallID), func(t *tx) error {
		if n := len(in.Result.Continuation); n > MaxContinuationBytes {
			return fmt.Errorf("its continuation is %d bytes; the maximum is %d", n, MaxContinuationBytes)
		}
		c, err := t.call(in.Turn, in.CallID)
		if err != nil {
			return err
		}
		again := c.row != 0 && c.granted == 0 && in.Attempt == c.rec.Suspended &&
			c.continuation.String == HashOf(in.Result.Continuation)
		if err := c.holds(in.Attempt); err != nil && (!again || c.closed || c.rec.Outcome != "") {
			return err
		}
		if again {
			return nil
		}
		hash, err := t.putBlob("application/octet-stream", in.Result.Continuation)
		if err != nil {
			return err
		}
		return t.exec(`UPDATE calls SET claimed_attempt = 0, suspended_attempt = ?, continuation_blob = ? WHERE id = ?`,
			in.Attempt, hash, c.row)
	})
}

// holds refuses an attempt that does not hold the claim.
func (c *call) holds(attempt int) error {
	switch {
	case c.row == 0 || attempt < 1 || attempt > c.rec.Attempt:
		return fmt.Errorf("attempt %d never claimed it: %w", attempt, ErrNotFound)
	case c.closed:
		return ErrClosed
	case c.rec.Outcome != "":
		return fmt.Errorf("it is settled: %w", ErrStale)
	case c.granted != attempt:
		return fmt.Errorf("attempt %d has no claim on it: %w", attempt, ErrStale)
	}
	return nil
}

// NoteCall appends tool_progress of an open claim. The journal keeps at most MaxNotes for each call: a later one
// changes nothing and is not an error. NoteCall is not idempotent: like AppendChunks, it appends again if it is called
// again. ErrStale if the call is settled or suspended or another attempt has claimed it, ErrClosed, ErrNotFound.
func (s *DB) NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress,
	at time.Time) error {
	return s.writeTurn(ctx, turnID, callName("noting the progress of", turnID, callID), func(t *tx) error {
		c, err := t.call(turnID, callID)
		if err == nil {
			err = c.holds(attempt)
		}
		if err != nil || c.notes >= MaxNotes {
			return err
		}
		chunk := turn.Chunk{Kind: turn.ChunkToolProgress, Step: c.rec.Step, Attempt: attempt, At: at}
		if there, err := t.appended(&c.scope, chunk); there || err != nil {
			return err
		}
		if err := t.exec(`UPDATE calls SET notes = notes + 1 WHERE id = ?`, c.row); err != nil {
			return err
		}
		return t.emitData(&c.scope, chunk, turn.ProgressChunk{CallID: c.rec.Call.ID, Tool: c.rec.Call.Tool,
			ToolProgress: turn.ToolProgress{
				Done: finite(p.Done), Total: finite(p.Total), Message: Preview(CleanText(p.Message), PreviewBytes),
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
