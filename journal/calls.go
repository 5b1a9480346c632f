package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// ClaimCall claims a call before it runs and emits tool_call_started, once for each call. The caller may run the call
// only if the result is ClaimGranted: see ClaimState. ErrClosed if the turn has ended and the call has no outcome;
// ErrUnapproved if the call needs an approval and no decision allows it with these arguments; ErrBehind if the turn
// does not exist. It is also an error if the call was claimed before with another tool or other arguments.
func (db *DB) ClaimCall(ctx context.Context, in ClaimInput) (out Claim, err error) {
	in.Call, in.Worker = record.CleanCall(in.Call), record.CleanText(in.Worker)
	err = db.writeTurn(ctx, in.Turn, callName("claiming", in.Turn, in.Call.ID), func(t *tx) error {
		if err := errors.Join(record.CheckID("call", in.Call.ID), checkAttempt(in.Attempt)); err != nil {
			return err
		}
		c, err := t.Call(in.Turn, in.Call.ID)
		if err != nil {
			return asErrBehind(err)
		}
		if c.Row != 0 && (c.Rec.Call.Tool != in.Call.Tool || c.ArgumentsHash != record.HashOf([]byte(in.Call.Arguments))) {
			return errors.New("the call is recorded with another tool or other arguments")
		}
		out.State, err = t.claim(&c, in)
		if err == nil && in.Subagent != nil {
			out.Subagent, err = t.claimSubagent(c, *in.Subagent)
		}
		if err == nil {
			err = t.Load(&c)
		}
		out.Record = c.Rec
		return err
	})
	return out, err
}

// callName returns the context of an error about a call: "<doing> call 1.0 of turn x".
func callName(doing, turnID, callID string) string {
	return fmt.Sprintf("%s call %s of turn %s", doing, callID, turnID)
}

// checkAttempt returns an error if an attempt's number is below 1.
func checkAttempt(attempt int) error {
	if attempt < 1 {
		return fmt.Errorf("attempt %d: attempts count from 1", attempt)
	}
	return nil
}

// claim decides about a claim of c and records it in c and in the ledger. c.Row is 0 if the call was never claimed.
func (t *tx) claim(c *call, in ClaimInput) (ClaimState, error) {
	switch {
	case c.Rec.Outcome != "":
		return ClaimSettled, nil
	case c.Closed:
		return "", ErrClosed
	}
	switch {
	case in.Attempt < c.Rec.Attempt:
		return ClaimStale, nil
	case c.Granted == in.Attempt && c.Rec.Worker == in.Worker &&
		c.Rec.ClaimedAt.Equal(in.At): // the same claim again: the reply to the first one was lost
		return ClaimGranted, nil
	case outcomeUnknown(c) && (!c.Rec.Repeatable || !in.Repeatable):
		// The call may have run, so the claim is not granted, and the lack of an approval is no error. The attempt is
		// recorded, so that it may settle the call as unknown.
		c.Rec.Attempt = in.Attempt
		return ClaimTaken, t.Exec(`UPDATE calls SET attempt = ? WHERE id = ?`, in.Attempt, c.Row)
	}
	if err := t.checkApproval(c, in); err != nil {
		return "", err
	}
	if c.Row == 0 {
		c.Rec = CallRecord{
			Turn: c.TurnID, Step: in.Step, Call: in.Call, Attempt: in.Attempt, Runs: 1, Repeatable: in.Repeatable,
			Worker:    in.Worker,
			ClaimedAt: tables.Instant(tables.Nanos(in.At)),
		}
		c.Granted = in.Attempt
		return ClaimGranted, t.insertCall(c, in.Sensitive, in.At)
	}
	c.Rec.Attempt = in.Attempt
	c.Rec.Runs++
	c.Rec.Worker, c.Rec.ClaimedAt = in.Worker, tables.Instant(tables.Nanos(in.At))
	return ClaimGranted,
		t.Exec(`UPDATE calls SET attempt = ?1, claimed_attempt = ?1, runs = runs + 1, worker = ?2, claimed_at = ?3
		WHERE id = ?4`, in.Attempt, in.Worker, tables.Nanos(in.At), c.Row)
}

// mayHaveRun reports whether an attempt without an outcome may have reached the tool: its claim was neither released
// nor suspended. Such a claim stays when the attempt's worker dies.
func mayHaveRun(c *call) bool {
	return c.Granted != 0 || c.Rec.Runs > 0 && c.Rec.Suspended == 0
}

// outcomeUnknown reports whether a call without an outcome may have taken effect and cannot be continued: an attempt
// may have run, or the call was suspended and the journal lacks its continuation.
func outcomeUnknown(c *call) bool {
	return mayHaveRun(c) || c.Rec.Suspended != 0 && !c.Continuation.Valid
}

// insertCall inserts the row of c in the ledger, sets c.Row, and emits tool_call_started. sensitive are names of
// arguments: see ClaimInput.
func (t *tx) insertCall(c *call, sensitive []string, at time.Time) (err error) {
	r := c.Rec
	if c.Arguments, err = t.Put(r.Call.Arguments, tables.TextPlain); err != nil {
		return err
	}
	c.ArgumentsHash = record.HashOf([]byte(r.Call.Arguments))
	err = t.Row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash, attempt,
		claimed_attempt, runs, repeatable, worker, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		c.Turn, r.Step, r.Call.ID, r.Call.WireID, r.Call.Tool, c.Arguments.Inline, c.Arguments.Blob, c.ArgumentsHash,
		r.Attempt,
		c.Granted, r.Runs, r.Repeatable, r.Worker, tables.Nanos(r.ClaimedAt)).Scan(&c.Row)
	if err != nil {
		return err
	}
	shown := turn.BlankArguments(r.Call.Arguments, sensitive)
	started := turn.CallEvent{CallID: r.Call.ID, Tool: r.Call.Tool,
		Arguments: record.Preview(shown, record.PreviewBytes)}
	if len(started.Arguments) < len(shown) {
		started.ArgumentsBytes = int64(len(r.Call.Arguments))
	}
	return t.emitData(&c.Scope, turn.Event{Kind: turn.EventToolCallStarted, Step: r.Step, Attempt: r.Attempt, At: at},
		started)
}

// ReleaseCall withdraws the claim of an attempt that never reached its tool, so that the next attempt is granted as if
// this one had never existed. If the attempt has no open claim, ReleaseCall changes nothing. The tool_call_started of
// the call stays.
func (db *DB) ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error {
	return db.writeTurn(ctx, turnID, callName("releasing", turnID, callID), func(t *tx) error {
		return t.Exec(`UPDATE calls SET claimed_attempt = 0, runs = runs - 1, claimed_at = 0
			WHERE turn = (SELECT id FROM turns WHERE turn_id = ? AND ended_at IS NULL) AND call_id = ? AND claimed_attempt = ?
			AND claimed_attempt > 0 AND settled_at IS NULL`, turnID, callID, attempt)
	})
}

// SettleCall records how a call ended, emits tool_call_completed and returns the call's record. The first settlement
// stands. A later one, even after the turn is closed, is kept in late_results, and the returned record has the first
// outcome and Late set. Either taints the session if SettleInput.Taints and Result.FromServer are set. ErrNotFound if
// the call was never claimed, or has no outcome and neither in.Attempt nor a later attempt has claimed it.
func (db *DB) SettleCall(ctx context.Context, in SettleInput) (out CallRecord, err error) {
	in.Result = record.CleanResult(in.Result)
	err = db.writeTurn(ctx, in.Turn, callName("settling", in.Turn, in.CallID), func(t *tx) error {
		c, err := t.Call(in.Turn, in.CallID)
		if err != nil {
			return err
		}
		if c.Row == 0 {
			return ErrNotFound
		}
		if in.Result.Text == "" && in.Result.Outcome != turn.OutcomeOK {
			in.Result.Text = record.ResultText(in.Result.Outcome)
		}
		if c.Rec.Outcome != "" {
			err = t.settleLate(&c, in)
		} else if in.Attempt < 1 || in.Attempt > c.Rec.Attempt {
			return fmt.Errorf("attempt %d never claimed it: %w", in.Attempt, ErrNotFound)
		} else {
			err = t.settle(&c, in.Attempt, in.Result, in.At)
		}
		if err == nil && in.Taints && in.Result.FromServer {
			err = t.taint(c, in.At)
		}
		if err == nil {
			err = t.Load(&c)
		}
		out = c.Rec
		return err
	})
	return out, err
}

// settle records the outcome of an open call in c and in the ledger, and emits tool_call_completed, and the changed
// plan if r has one. attempt is the attempt that got the result; 0 if the call was never claimed.
func (t *tx) settle(c *call, attempt int, r turn.ToolResult, at time.Time) (err error) {
	if !r.Outcome.Known() {
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	full, err := t.putResult(c, r) // before c has an outcome: see putArtifact
	if err != nil {
		return err
	}
	c.Rec.Outcome, c.Rec.Code, c.Rec.Text, c.Rec.SettledAt = r.Outcome, r.Code, r.Text, tables.Instant(tables.Nanos(at))
	c.Continuation = sql.NullString{}
	c.Rec.FullBlob, c.Rec.SizeBytes = full.String, max(r.SizeBytes, int64(len(r.Text)))
	if !c.Rec.ClaimedAt.IsZero() {
		c.Rec.DurationMS = max(0, at.Sub(c.Rec.ClaimedAt).Milliseconds())
	}
	err = t.Exec(`UPDATE calls SET outcome = ?, text = ?, text_blob = ?, full_blob = ?, size = ?, settled_attempt = ?, settled_at = ?,
		duration_ms = ?, media = ?, code = ?, continuation_blob = NULL WHERE id = ?`, string(r.Outcome), c.Text.Inline, c.Text.Blob, full, c.Rec.SizeBytes, attempt,
		tables.Nanos(at), c.Rec.DurationMS, c.Media, string(r.Code), c.Row)
	if err == nil && strings.HasPrefix(c.Rec.Call.Tool, turn.AgentTools) {
		err = t.EndSubagent(c.Row, false) // a subagent in the background ends with its call's late result
	}
	if err != nil {
		return err
	}
	err = t.emitData(&c.Scope, turn.Event{Kind: turn.EventToolCallCompleted, Step: c.Rec.Step, Attempt: attempt, At: at},
		turn.CallEvent{
			CallID: c.Rec.Call.ID, Tool: c.Rec.Call.Tool, Outcome: r.Outcome, Code: r.Code,
			Preview:   record.Preview(r.Text, record.PreviewBytes),
			SizeBytes: c.Rec.SizeBytes, DurationMS: c.Rec.DurationMS,
		})
	if err != nil || r.Plan == nil {
		return err
	}
	return t.emitData(&c.Scope, turn.Event{Kind: turn.EventPlan, Step: c.Rec.Step, Attempt: attempt, At: at}, r.Plan)
}

// putResult stores the content of a result and sets the columns c.Text and c.Media. full is the blob of the whole
// output, null if r.Text has all of it.
func (t *tx) putResult(c *call, r turn.ToolResult) (full sql.NullString, err error) {
	if c.Text, err = t.Put(r.Text, tables.TextPlain); err != nil {
		return full, err
	}
	if c.Media, err = t.putMedia(c, r.Media); err != nil || r.Full == nil {
		return full, err
	}
	full.Valid = true
	full.String, err = t.putArtifact(c, r.MediaType, r.Full)
	return full, err
}

// Call returns the call with its arguments and outcome. ErrNotFound if the call was never claimed.
func (db *DB) Call(ctx context.Context, turnID, callID string) (CallRecord, error) {
	return tables.GetOfNamedTurn(ctx, db.tables, turnID, "reading call "+callID,
		func(q querier, _ scope) (CallRecord, error) {
			c, err := q.Call(turnID, callID)
			if err == nil && c.Row == 0 {
				err = ErrNotFound
			}
			if err == nil {
				err = q.Load(&c)
			}
			return c.Rec, err
		})
}

// Calls returns the ledger of a turn's calls, ordered by step and index.
func (db *DB) Calls(ctx context.Context, turnID string) ([]CallRecord, error) {
	return tables.GetOfNamedTurn(ctx, db.tables, turnID, "listing the calls", querier.Calls)
}

// putArtifact stores b as a blob, records it as an artifact of the call, and returns its hash. If c has an outcome, the
// artifact is one of a late result.
func (t *tx) putArtifact(c *call, mediaType string, b []byte) (hash string, err error) {
	if hash, err = t.PutBlob(mediaType, b); err != nil {
		return "", err
	}
	return hash, t.NoteArtifact(c.Session, c.Row, hash, mediaType, c.Rec.Outcome != "")
}

// putMedia stores the media of a result as artifacts of the call, and returns the column that names them.
func (t *tx) putMedia(c *call, media []turn.Media) (tables.Content, error) {
	for _, m := range media {
		if _, err := t.putArtifact(c, m.Type, m.Data); err != nil {
			return tables.Content{}, err
		}
	}
	return tables.MediaColumn(media)
}

// Artifact returns the content and media type of an artifact: the whole text of a truncated result or message, or one
// of a result's media. The artifact must belong to the turn's session or its shared past; every other hash is
// ErrNotFound, so that a blob of another session cannot be read by its hash.
func (db *DB) Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error) {
	err = db.tables.Read(ctx, fmt.Sprintf("reading artifact %.80s for turn %s", record.CleanText(hash), turnID),
		func(q querier) error {
			sc, err := q.Scope(turnID)
			if err != nil {
				return err
			}
			if mediaType, err = q.Artifact(sc.Session, hash); err != nil {
				return err
			}
			b, err = q.GetBlob(hash)
			return err
		})
	return mediaType, b, err
}

// taint marks the call's session as tainted by the call's result. The first mark stays.
func (t *tx) taint(c call, at time.Time) error {
	return t.InsertTaint(c.Session, TaintSource{Turn: c.TurnID, CallID: c.Rec.Call.ID, Tool: c.Rec.Call.Tool, At: at})
}

// Taint returns the first taint source of the turn's session (see SettleInput.Taints), nil if it has none. A fork
// inherits it. ErrNotFound if the turn does not exist.
func (db *DB) Taint(ctx context.Context, turnID string) (*TaintSource, error) {
	return tables.GetOfTurn(ctx, db.tables, turnID, "reading the taint source",
		func(q querier, sc scope) (*TaintSource, error) { return q.TaintSource(sc.Session) })
}
