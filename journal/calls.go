package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// call is a row of the ledger with its turn. row is 0 if the ledger does not have the call.
type call struct {
	scope
	row            int64
	rec            CallRecord
	granted        int // the attempt that holds the claim; 0 if none does
	argumentsHash  string
	settledAttempt int
	arguments      stored
	text           stored
	continuation   sql.NullString // a blob's hash
	media          content        // JSON
	notes          int            // tool_progress chunks so far
	requests       bool           // the turn has requests about it
}

const callColumns = `coalesce(c.id, 0), coalesce(c.step, 0), coalesce(c.call_id, ''), coalesce(c.wire_id, ''), coalesce(c.tool, ''),
	c.arguments, c.arguments_blob, coalesce(c.arguments_hash, ''), coalesce(c.attempt, 0), coalesce(c.claimed_attempt, 0), coalesce(c.runs, 0),
	coalesce(c.repeatable, FALSE), coalesce(c.worker, ''), coalesce(c.claimed_at, 0), coalesce(c.outcome, ''), c.text, c.text_blob,
	coalesce(c.full_blob, ''), coalesce(c.size, 0), coalesce(c.settled_attempt, 0), coalesce(c.settled_at, 0),
	coalesce(c.duration_ms, 0), coalesce(c.late_count, 0), coalesce(c.suspended_attempt, 0), c.continuation_blob, c.media, coalesce(c.notes, 0),
	coalesce(c.code, '')`

// scan reads the fields before and then callColumns.
func (c *call) scan(scan func(...any) error, before ...any) error {
	var claimed, settled int64
	r := &c.rec
	err := scan(append(before, &c.row, &r.Step, &r.Call.ID, &r.Call.WireID, &r.Call.Tool,
		&c.arguments.inline, &c.arguments.blob, &c.argumentsHash, &r.Attempt, &c.granted, &r.Runs,
		&r.Repeatable, &r.Worker, &claimed, &r.Outcome, &c.text.inline, &c.text.blob,
		&r.FullBlob, &r.SizeBytes, &c.settledAttempt, &settled, &r.DurationMS, &r.LateCount,
		&r.Suspended, &c.continuation, &c.media, &c.notes, &r.Code)...)
	r.ClaimedAt, r.SettledAt = instant(claimed), instant(settled)
	return err
}

func (q querier) call(turnID, callID string) (c call, err error) {
	row := q.row(`SELECT `+scopeColumns+
		`, EXISTS (SELECT 1 FROM requests w WHERE w.turn = t.id AND (w.request_id = ?1 OR w.call_id = ?1)),
		`+callColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN calls c ON c.turn = t.id AND c.call_id = ?1 WHERE t.turn_id = ?2`, callID, turnID)
	err = c.scan(row.Scan, append(c.fields(), &c.requests)...)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	c.rec.Turn = c.turnID
	return c, err
}

// load loads the fields that may be in blobs, unless the transaction has just stored them.
func (q querier) load(c *call) (err error) {
	if c.rec.Call.Arguments == "" {
		c.rec.Call.Arguments, err = q.get(c.arguments)
	}
	if err == nil && c.rec.Text == "" {
		c.rec.Text, err = q.get(c.text)
	}
	if err != nil {
		return err
	}
	if c.rec.Media, err = readMedia(c.media); err != nil || !c.continuation.Valid {
		return err
	}
	b, err := q.getBlob(c.continuation.String)
	c.rec.Continuation = append([]byte{}, b...) // not nil even if it is empty
	return err
}

// ClaimCall claims a call before it runs and emits tool_call_started, once for each call. See ClaimState for the
// results. ErrClosed; ErrUnapproved if ClaimInput.Approved is set and no decision allows this call with these
// arguments.
func (s *DB) ClaimCall(ctx context.Context, in ClaimInput) (out Claim, err error) {
	in.Call, in.Worker = cleanCall(in.Call), CleanText(in.Worker)
	err = s.writeTurn(ctx, in.Turn, callName("claiming", in.Turn, in.Call.ID), func(t *tx) error {
		if err := errors.Join(checkID("call", in.Call.ID), checkAttempt(in.Attempt)); err != nil {
			return err
		}
		c, err := t.call(in.Turn, in.Call.ID)
		if err != nil {
			return err
		}
		if c.row != 0 && (c.rec.Call.Tool != in.Call.Tool || c.argumentsHash != HashOf([]byte(in.Call.Arguments))) {
			return errors.New("the call is recorded with another tool or other arguments")
		}
		out.State, err = t.claim(&c, in)
		if err == nil {
			err = t.load(&c)
		}
		out.Record = c.rec
		return err
	})
	return out, err
}

func callName(doing, turnID, callID string) string {
	return fmt.Sprintf("%s call %s of turn %s", doing, callID, turnID)
}

func checkAttempt(attempt int) error {
	if attempt < 1 {
		return fmt.Errorf("attempt %d: attempts count from 1", attempt)
	}
	return nil
}

func (t *tx) claim(c *call, in ClaimInput) (ClaimState, error) {
	switch {
	case c.rec.Outcome != "":
		return ClaimSettled, nil
	case c.closed:
		return "", ErrClosed
	}
	switch {
	case in.Attempt < c.rec.Attempt:
		return ClaimStale, nil
	case c.granted == in.Attempt && c.rec.Worker == in.Worker &&
		c.rec.ClaimedAt.Equal(in.At): // the reply to its claim was lost
		return ClaimGranted, nil
	case c.underWay() && (!c.rec.Repeatable || !in.Repeatable): // even if it is not approved: it may have run
		c.rec.Attempt = in.Attempt
		return ClaimTaken, t.exec(`UPDATE calls SET attempt = ? WHERE id = ?`, in.Attempt, c.row)
	}
	if err := t.checkApproval(c, in); err != nil {
		return "", err
	}
	if c.row == 0 {
		c.rec = CallRecord{
			Turn: c.turnID, Step: in.Step, Call: in.Call, Attempt: in.Attempt, Runs: 1, Repeatable: in.Repeatable,
			Worker:    in.Worker,
			ClaimedAt: instant(nanos(in.At)),
		}
		c.granted = in.Attempt
		return ClaimGranted, t.insertCall(c, in.At)
	}
	c.rec.Attempt = in.Attempt
	c.rec.Runs++
	c.rec.Worker, c.rec.ClaimedAt = in.Worker, instant(nanos(in.At))
	return ClaimGranted,
		t.exec(`UPDATE calls SET attempt = ?1, claimed_attempt = ?1, runs = runs + 1, worker = ?2, claimed_at = ?3
		WHERE id = ?4`, in.Attempt, in.Worker, nanos(in.At), c.row)
}

// mayRun reports whether an attempt may have reached the tool and left no outcome: it has a claim that was neither
// released nor suspended.
func (c *call) mayRun() bool {
	return c.granted != 0 || c.rec.Runs > 0 && c.rec.Suspended == 0
}

// underWay reports whether an attempt may run, or was suspended and its continuation is lost.
func (c *call) underWay() bool {
	return c.mayRun() || c.rec.Suspended != 0 && !c.continuation.Valid
}

// insertCall writes the ledger's row and tells followers that the call has started.
func (t *tx) insertCall(c *call, at time.Time) (err error) {
	r := c.rec
	if c.arguments, err = t.put(r.Call.Arguments, textPlain); err != nil {
		return err
	}
	c.argumentsHash = HashOf([]byte(r.Call.Arguments))
	err = t.row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash, attempt,
		claimed_attempt, runs, repeatable, worker, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		c.turn, r.Step, r.Call.ID, r.Call.WireID, r.Call.Tool, c.arguments.inline, c.arguments.blob, c.argumentsHash,
		r.Attempt,
		c.granted, r.Runs, r.Repeatable, r.Worker, nanos(r.ClaimedAt)).Scan(&c.row)
	if err != nil {
		return err
	}
	started := turn.CallChunk{CallID: r.Call.ID, Tool: r.Call.Tool, Arguments: Preview(r.Call.Arguments, PreviewBytes)}
	if len(started.Arguments) < len(r.Call.Arguments) {
		started.ArgumentsBytes = int64(len(r.Call.Arguments))
	}
	return t.emitData(&c.scope, turn.Chunk{Kind: turn.ChunkToolCallStarted, Step: r.Step, Attempt: r.Attempt, At: at},
		started)
}

// ReleaseCall withdraws the claim of (turn, call, attempt): nothing reached the tool, and the next attempt is granted
// as if this one had never existed. If that claim is not open, ReleaseCall changes nothing. Its tool_call_started
// stays.
func (s *DB) ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error {
	return s.writeTurn(ctx, turnID, callName("releasing", turnID, callID), func(t *tx) error {
		return t.exec(`UPDATE calls SET claimed_attempt = 0, runs = runs - 1, claimed_at = 0
			WHERE turn = (SELECT id FROM turns WHERE turn_id = ? AND ended_at IS NULL) AND call_id = ? AND claimed_attempt = ?
			AND claimed_attempt > 0 AND settled_at IS NULL`, turnID, callID, attempt)
	})
}

// SettleCall records how a call ended and emits tool_call_completed. The first settlement stands. A later one, even
// after the turn is closed, is kept in late_results, and SettleCall returns the settled record with Late set. With
// SettleInput.Taints, both kinds taint the session if the result is from the server.
func (s *DB) SettleCall(ctx context.Context, in SettleInput) (out CallRecord, err error) {
	in.Result = cleanResult(in.Result)
	err = s.writeTurn(ctx, in.Turn, callName("settling", in.Turn, in.CallID), func(t *tx) error {
		c, err := t.call(in.Turn, in.CallID)
		if err != nil {
			return err
		}
		if c.row == 0 {
			return ErrNotFound
		}
		if in.Result.Text == "" && in.Result.Outcome != turn.OutcomeOK {
			in.Result.Text = ResultText(in.Result.Outcome)
		}
		if c.rec.Outcome != "" {
			err = t.settleLate(&c, in)
		} else if in.Attempt < 1 || in.Attempt > c.rec.Attempt {
			return fmt.Errorf("attempt %d never claimed it: %w", in.Attempt, ErrNotFound)
		} else {
			err = t.settle(&c, in.Attempt, in.Result, in.At)
		}
		if err == nil && in.Taints && in.Result.FromServer {
			err = t.taint(c, in.At)
		}
		if err == nil {
			err = t.load(&c)
		}
		out = c.rec
		return err
	})
	return out, err
}

// settle records how a call ended and tells followers.
func (t *tx) settle(c *call, attempt int, r turn.ToolResult, at time.Time) (err error) {
	if !r.Outcome.Known() {
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	full, err := t.putResult(c, r)
	if err != nil {
		return err
	}
	c.rec.Outcome, c.rec.Code, c.rec.Text, c.rec.SettledAt = r.Outcome, r.Code, r.Text, instant(nanos(at))
	c.continuation = sql.NullString{}
	c.rec.FullBlob, c.rec.SizeBytes = full.String, max(r.SizeBytes, int64(len(r.Text)))
	if !c.rec.ClaimedAt.IsZero() {
		c.rec.DurationMS = max(0, at.Sub(c.rec.ClaimedAt).Milliseconds())
	}
	err = t.exec(`UPDATE calls SET outcome = ?, text = ?, text_blob = ?, full_blob = ?, size = ?, settled_attempt = ?, settled_at = ?,
		duration_ms = ?, media = ?, code = ?, continuation_blob = NULL WHERE id = ?`, string(r.Outcome), c.text.inline, c.text.blob, full, c.rec.SizeBytes, attempt,
		nanos(at), c.rec.DurationMS, c.media, string(r.Code), c.row)
	if err != nil {
		return err
	}
	return t.emitData(&c.scope, turn.Chunk{Kind: turn.ChunkToolCallCompleted, Step: c.rec.Step, Attempt: attempt, At: at},
		turn.CallChunk{
			CallID: c.rec.Call.ID, Tool: c.rec.Call.Tool, Outcome: r.Outcome, Code: r.Code,
			Preview:   Preview(r.Text, PreviewBytes),
			SizeBytes: c.rec.SizeBytes, DurationMS: c.rec.DurationMS,
		})
}

func (t *tx) putResult(c *call, r turn.ToolResult) (full sql.NullString, err error) {
	if c.text, err = t.put(r.Text, textPlain); err != nil {
		return full, err
	}
	if c.media, err = t.putMedia(c, r.Media); err != nil || r.Full == nil {
		return full, err
	}
	full.Valid = true
	full.String, err = t.putArtifact(c, r.MediaType, r.Full)
	return full, err
}
