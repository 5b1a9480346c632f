package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// ClaimCall claims a call before it runs and emits tool_call_started, once for each call. It returns the ledger's
// record of the call, and the caller may run the call only if its Claim is ClaimGranted. in has Turn, Step and Call,
// the Attempt that claims (from 1: a claim is refused if a higher attempt has claimed the call), its Worker and time
// ClaimedAt, whether the tool is Repeatable, and the Subagent if it is an agent's. approved means that the journal must
// have a decision that allows the call. sensitive are names of arguments whose values tool_call_started does not show,
// besides those of turn.BlankArguments.
//
// ErrClosed if the turn has ended and the call has no outcome; ErrUnapproved if the call needs an approval and no
// decision allows it with these arguments; ErrBehind if the turn does not exist. It is also an error if the call was
// claimed before with another tool or other arguments.
func (db *DB) ClaimCall(ctx context.Context, in CallRecord, approved bool, sensitive ...string) (out CallRecord,
	err error) {
	in.Call, in.Worker = cleanCall(in.Call), CleanText(in.Worker)
	err = db.writeTurn(ctx, in.Turn, callName("claiming", in.Turn, in.Call.ID), func(t *tx) error {
		if err := errors.Join(checkID("call", in.Call.ID), checkAttempt(in.Attempt)); err != nil {
			return err
		}
		if in.Subagent == nil && !approved { // so it is in nearly every claim
			c := callRow{scope: scope{TurnID: in.Turn}}
			switch err := t.insertClaim(&c, in, sensitive); {
			case err == nil:
				out = c.Rec
				out.Claim = ClaimGranted
				return nil
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
		c, err := t.Call(in.Turn, in.Call.ID)
		if err != nil {
			return asErrBehind(err)
		}
		if c.Row != 0 && (c.Rec.Call.Tool != in.Call.Tool || c.ArgumentsHash != HashOf([]byte(in.Call.Arguments))) {
			return errors.New("the call is recorded with another tool or other arguments")
		}
		c.Rec.Claim, err = t.claim(&c, in, approved, sensitive)
		if err == nil && in.Subagent != nil {
			c.Rec.Subagent, err = t.claimSubagent(c, *in.Subagent)
		}
		if err == nil {
			err = t.Load(&c)
		}
		out = c.Rec
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

// claim decides about a claim of c and records it in c and in the ledger. c.Row is 0 if the call was never claimed. See
// ClaimCall for the parameters.
func (t *tx) claim(c *callRow, in CallRecord, approved bool, sensitive []string) (ClaimState, error) {
	switch {
	case c.Rec.Outcome != "":
		return ClaimSettled, nil
	case c.Closed:
		return "", ErrClosed
	}
	switch {
	case in.Attempt < c.Rec.Attempt:
		return ClaimStale, nil
	case c.Rec.ClaimedAttempt == in.Attempt && c.Rec.Worker == in.Worker &&
		c.Rec.ClaimedAt.Equal(in.ClaimedAt): // the same claim again: the reply to the first one was lost
		return ClaimGranted, nil
	case outcomeUnknown(c) && (!c.Rec.Repeatable || !in.Repeatable):
		// The call may have run, so the claim is not granted, and the lack of an approval is not an error. The attempt is
		// recorded, so that it may settle the call as unknown.
		c.Rec.Attempt = in.Attempt
		return ClaimTaken, t.Exec(`UPDATE calls SET attempt = ? WHERE id = ?`, in.Attempt, c.Row)
	}
	if err := t.checkApproval(c, in.Call, approved); err != nil {
		return "", err
	}
	if c.Row == 0 {
		return ClaimGranted, t.insertClaim(c, in, sensitive)
	}
	c.Rec.Attempt, c.Rec.ClaimedAttempt = in.Attempt, in.Attempt
	c.Rec.Runs++
	c.Rec.Worker, c.Rec.ClaimedAt = in.Worker, instant(nanos(in.ClaimedAt))
	return ClaimGranted,
		t.Exec(`UPDATE calls SET attempt = ?1, claimed_attempt = ?1, runs = runs + 1, worker = ?2, claimed_at = ?3
		WHERE id = ?4`, in.Attempt, in.Worker, nanos(in.ClaimedAt), c.Row)
}

// mayHaveRun reports whether an attempt without an outcome may have reached the tool: its claim was neither released
// nor suspended. Such a claim stays when the attempt's worker dies.
func mayHaveRun(c *callRow) bool {
	return c.Rec.ClaimedAttempt != 0 || c.Rec.Runs > 0 && c.Rec.Suspended == 0
}

// outcomeUnknown reports whether a call without an outcome may have taken effect and cannot be continued: an attempt
// may have run, or the call was suspended and the journal lacks its continuation.
func outcomeUnknown(c *callRow) bool {
	return mayHaveRun(c) || c.Rec.Suspended != 0 && !c.Continuation.Valid
}

// insertClaim inserts the row of a call that is claimed for the first time, and sets c.Rec: see insertCall.
func (t *tx) insertClaim(c *callRow, in CallRecord, sensitive []string) error {
	c.Rec = CallRecord{Turn: c.TurnID, Step: in.Step, Call: in.Call, Attempt: in.Attempt, ClaimedAttempt: in.Attempt, Runs: 1,
		Repeatable: in.Repeatable, Worker: in.Worker, ClaimedAt: instant(nanos(in.ClaimedAt))}
	return t.insertCall(c, sensitive, in.ClaimedAt, true)
}

// insertCall inserts the row of c in the ledger, sets c.Row and c.Turn, and emits tool_call_started, and before it the
// phase CallTool if the call runs and is the first of its step. sensitive are names of arguments: see ClaimCall. If
// c.Turn is 0, only c.TurnID of the scope is known. Then insertCall inserts the row only if the turn runs and has
// neither the call nor a request about it, and returns sql.ErrNoRows otherwise.
func (t *tx) insertCall(c *callRow, sensitive []string, at time.Time, runs bool) (err error) {
	r, later := c.Rec, false // later: the step has an earlier call
	if c.Arguments, err = t.Put(r.Call.Arguments, textPlain); err != nil {
		return err
	}
	c.ArgumentsHash = HashOf([]byte(r.Call.Arguments))
	unchecked := c.Turn != 0
	err = t.Row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash, attempt,
		claimed_attempt, runs, repeatable, worker, claimed_at)
		SELECT t.id, CAST(?1 AS BIGINT), ?2, ?3, ?4, ?5, ?6, ?7, CAST(?8 AS BIGINT), CAST(?9 AS BIGINT), CAST(?10 AS BIGINT),
			CAST(?11 AS BOOLEAN), ?12, CAST(?13 AS BIGINT)
		FROM turns t WHERE t.turn_id = ?14 AND (CAST(?15 AS BOOLEAN) OR t.ended_at IS NULL
			AND NOT EXISTS (SELECT 1 FROM calls o WHERE o.turn = t.id AND o.call_id = ?2)
			AND NOT EXISTS (SELECT 1 FROM requests w WHERE w.turn = t.id AND (w.request_id = ?2 OR w.call_id = ?2)))
		RETURNING id, turn,
			EXISTS (SELECT 1 FROM calls o WHERE o.turn = calls.turn AND o.step = calls.step AND o.id <> calls.id)`,
		r.Step, r.Call.ID, r.Call.WireID, r.Call.Tool, c.Arguments.Inline, c.Arguments.Blob, c.ArgumentsHash, r.Attempt,
		r.ClaimedAttempt, r.Runs, r.Repeatable, r.Worker, nanos(r.ClaimedAt), c.TurnID, unchecked).Scan(&c.Row, &c.Turn, &later)
	if err != nil {
		return err
	}
	shown := turn.BlankArguments(r.Call.Arguments, sensitive)
	started := turn.CallEvent{CallID: r.Call.ID, Tool: r.Call.Tool,
		Arguments: preview(shown, PreviewBytes)}
	if len(started.Arguments) < len(shown) {
		started.ArgumentsBytes = int64(len(r.Call.Arguments))
	}
	var events []turn.Event
	if runs && !later {
		events = append(events, phaseEvent(r.Step, 0, at, turn.PhaseEvent{Phase: turn.PhaseCallTool}))
	}
	return t.emit(&c.scope, append(events, turn.Event{Kind: turn.EventToolCallStarted, Step: r.Step, Attempt: r.Attempt, At: at,
		Data: mustJSON(started)})...)
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

// SettleCall records the result of an attempt of a call, emits tool_call_completed and returns the call's record. The
// first settlement stands. A later one, even after the turn is closed, is kept in late_results, and the returned record
// has the first outcome and Late set. Either taints the session if r.Taints and r.FromServer are set. Each of the
// result's media carries its Data; the journal computes hash and size. It keeps at most MaxMedia of at most
// MaxMediaBytes, and the text says how many it has dropped. ErrNotFound if the call was never claimed, or has no
// outcome and neither this nor a later attempt has claimed it.
func (db *DB) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (out CallRecord, err error) {
	r = cleanResult(r)
	if r.Text == "" && r.Outcome != turn.OutcomeOK {
		r.Text = ResultText(r.Outcome)
	}
	err = db.writeTurn(ctx, turnID, callName("settling", turnID, callID), func(t *tx) error {
		c, settled, err := t.settleClaimed(turnID, callID, attempt, r, at)
		if err == nil && !settled {
			c, err = t.settleCall(turnID, callID, attempt, r, at)
		}
		if err == nil && r.Taints && r.FromServer {
			err = t.taint(c, at)
		}
		if err == nil {
			err = t.Load(&c)
		}
		out = c.Rec
		return err
	})
	return out, err
}

// settleCall is SettleCall for any call: it reads the call and decides what becomes of the result.
func (t *tx) settleCall(turnID, callID string, attempt int, r turn.ToolResult, at time.Time) (callRow, error) {
	c, err := t.Call(turnID, callID)
	switch {
	case err != nil:
		return c, err
	case c.Row == 0:
		return c, ErrNotFound
	case c.Rec.Outcome != "":
		return c, t.settleLate(&c, attempt, r, at)
	case attempt < 1 || attempt > c.Rec.Attempt:
		return c, fmt.Errorf("attempt %d never claimed it: %w", attempt, ErrNotFound)
	}
	return c, t.settle(&c, attempt, r, at)
}

// settleClaimed is SettleCall for an open call whose claim the attempt holds, which needs no read. For any other call,
// and for a result with artifacts or of a subagent, settled is false and nothing is changed.
func (t *tx) settleClaimed(turnID, callID string, attempt int, r turn.ToolResult, at time.Time) (c callRow, settled bool,
	err error) {
	if attempt < 1 || r.Full != nil || len(r.Media) > 0 || !r.Outcome.Known() {
		return c, false, nil
	}
	if c.Text, err = t.Put(r.Text, textPlain); err != nil {
		return c, false, err
	}
	var session int64
	err = c.Scan(t.Row(settleStatement+` WHERE calls.turn = (SELECT t.id FROM turns t WHERE t.turn_id = ?12) AND calls.call_id = ?13
		AND calls.settled_at IS NULL AND calls.attempt = ?6 AND calls.claimed_attempt = ?6 AND substr(calls.tool, 1, length(?14)) <> ?14
		RETURNING calls.turn, (SELECT t.session FROM turns t WHERE t.id = calls.turn), `+callColumns,
		append(c.settlement(attempt, r, sql.NullString{}, at), turnID, callID, turn.AgentTools)...).Scan,
		&c.Turn, &session)
	if err != nil {
		return c, false, ignoreNoRows(err)
	}
	c.TurnID, c.Session, c.Rec.Turn = turnID, session, turnID
	c.Rec.Text = r.Text
	return c, true, t.emitCompleted(&c, attempt, r, at)
}

// settleStatement is the beginning of the statement that settles a call; its arguments are those of callRow.settlement.
const settleStatement = `UPDATE calls SET outcome = ?1, text = ?2, text_blob = ?3, full_blob = ?4, size = ?5,
	settled_attempt = ?6, settled_at = ?7, duration_ms = CASE WHEN calls.claimed_at BETWEEN 1 AND ?7 THEN (?7 - calls.claimed_at) / ?8
	ELSE 0 END, media = ?9, code = ?10, continuation_blob = ?11`

// settlement returns the arguments of settleStatement. c has the columns of the result: see tx.putResult.
func (c *callRow) settlement(attempt int, r turn.ToolResult, full sql.NullString, at time.Time) []any {
	return []any{string(r.Outcome), c.Text.Inline, c.Text.Blob, full, max(r.SizeBytes, int64(len(r.Text))), attempt,
		nanos(at), int64(time.Millisecond), c.Media, string(r.Code), sql.NullString{}}
}

// settle records the outcome of an open call in c and in the ledger, and emits tool_call_completed, and the changed
// plan if r has one. attempt is the attempt that got the result; 0 if the call was never claimed.
func (t *tx) settle(c *callRow, attempt int, r turn.ToolResult, at time.Time) (err error) {
	if !r.Outcome.Known() {
		return fmt.Errorf("unknown outcome %q", r.Outcome)
	}
	full, err := t.putResult(c, r) // before c has an outcome: see putArtifact
	if err != nil {
		return err
	}
	err = c.Scan(t.Row(settleStatement+` WHERE calls.id = ?12 RETURNING `+callColumns,
		append(c.settlement(attempt, r, full, at), c.Row)...).Scan)
	if err == nil && strings.HasPrefix(c.Rec.Call.Tool, turn.AgentTools) {
		err = t.EndSubagent(c.Row, false) // a subagent in the background ends with its call's late result
	}
	if err != nil {
		return err
	}
	c.Rec.Text = r.Text
	return t.emitCompleted(c, attempt, r, at)
}

// emitCompleted emits tool_call_completed for a call that was settled with r, the changed plan if r has one, and what
// the call did with the tree of its session.
func (t *tx) emitCompleted(c *callRow, attempt int, r turn.ToolResult, at time.Time) error {
	events := []turn.Event{{Kind: turn.EventToolCallCompleted, Step: c.Rec.Step, Attempt: attempt, At: at,
		Data: mustJSON(turn.CallEvent{CallID: c.Rec.Call.ID, Tool: c.Rec.Call.Tool, Outcome: r.Outcome, Code: r.Code,
			Preview: preview(r.Text, PreviewBytes), SizeBytes: c.Rec.SizeBytes, DurationMS: c.Rec.DurationMS})}}
	if r.Plan != nil {
		events = append(events, turn.Event{Kind: turn.EventPlan, Step: c.Rec.Step, Attempt: attempt, At: at,
			Data: mustJSON(r.Plan)})
	}
	for _, w := range r.Workspace {
		w.CallID, w.Tool = c.Rec.Call.ID, c.Rec.Call.Tool
		events = append(events, turn.Event{Kind: w.Kind, Step: c.Rec.Step, Attempt: attempt, At: at, Data: mustJSON(w)})
	}
	return t.emit(&c.scope, events...)
}

// putResult stores the content of a result and sets the columns c.Text and c.Media. full is the blob of the whole
// output, null if r.Text has all of it.
func (t *tx) putResult(c *callRow, r turn.ToolResult) (full sql.NullString, err error) {
	if c.Text, err = t.Put(r.Text, textPlain); err != nil {
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
	return getOfNamedTurn(ctx, db, turnID, "reading call "+callID,
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
	return getOfNamedTurn(ctx, db, turnID, "listing the calls", querier.Calls)
}

// putArtifact stores b as a blob, records it as an artifact of the call, and returns its hash. If c has an outcome, the
// artifact is one of a late result.
func (t *tx) putArtifact(c *callRow, mediaType string, b []byte) (hash string, err error) {
	if hash, err = t.PutBlob(mediaType, b); err != nil {
		return "", err
	}
	return hash, t.NoteArtifact(c.Session, c.Row, hash, mediaType, c.Rec.Outcome != "")
}

// putMedia stores the media of a result as artifacts of the call, and returns the column that names them.
func (t *tx) putMedia(c *callRow, media []turn.Media) (content, error) {
	for _, m := range media {
		if _, err := t.putArtifact(c, m.Type, m.Data); err != nil {
			return content{}, err
		}
	}
	return mediaColumn(media)
}

// Artifact returns the content and media type of an artifact: the whole text of a truncated result or message, or one
// of a result's media. The artifact must belong to the turn's session or its shared past; every other hash is
// ErrNotFound, so that a blob of another session cannot be read by its hash.
func (db *DB) Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error) {
	err = db.read(ctx, fmt.Sprintf("reading artifact %.80s for turn %s", CleanText(hash), turnID),
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
func (t *tx) taint(c callRow, at time.Time) error {
	return t.InsertTaint(c.Session, TaintSource{Turn: c.TurnID, CallID: c.Rec.Call.ID, Tool: c.Rec.Call.Tool, At: at})
}

// Taint returns the first taint source of the turn's session (see turn.ToolResult.Taints), nil if it has none. A fork
// inherits it. ErrNotFound if the turn does not exist.
func (db *DB) Taint(ctx context.Context, turnID string) (*TaintSource, error) {
	return getOfTurn(ctx, db, turnID, "reading the taint source",
		func(q querier, sc scope) (*TaintSource, error) { return q.TaintSource(sc.Session) })
}

// callRow is a tool call of a turn, as the ledger has it.
type callRow struct {
	scope
	Row           int64 // of the ledger; 0 if the ledger does not have the call
	Rec           CallRecord
	ArgumentsHash string
	Arguments     stored
	Text          stored
	Continuation  sql.NullString // a blob's hash
	Media         content        // JSON
	Notes         int            // tool_progress events so far
	Requests      bool           // the turn has requests about it
	HasResult     bool           // the transcript has its result; only requestedCalls sets it
}

// callColumns are the columns of calls that callRow.Scan reads. They may be null, for a LEFT JOIN.
const callColumns = `coalesce(calls.id, 0), coalesce(calls.step, 0), coalesce(calls.call_id, ''), coalesce(calls.wire_id, ''), coalesce(calls.tool, ''),
	calls.arguments, calls.arguments_blob, coalesce(calls.arguments_hash, ''), coalesce(calls.attempt, 0), coalesce(calls.claimed_attempt, 0), coalesce(calls.runs, 0),
	coalesce(calls.repeatable, FALSE), coalesce(calls.worker, ''), coalesce(calls.claimed_at, 0), coalesce(calls.outcome, ''), calls.text, calls.text_blob,
	coalesce(calls.full_blob, ''), coalesce(calls.size, 0), coalesce(calls.settled_attempt, 0), coalesce(calls.settled_at, 0),
	coalesce(calls.duration_ms, 0), coalesce(calls.late_count, 0), coalesce(calls.suspended_attempt, 0), calls.continuation_blob, calls.media, coalesce(calls.notes, 0),
	coalesce(calls.code, '')`

// Scan scans a row into c. The columns of the row are those for the destinations in before, followed by callColumns.
// Scan does not load blobs: see querier.Load.
func (c *callRow) Scan(scan func(...any) error, before ...any) error {
	var claimed, settled int64
	r := &c.Rec
	err := scan(append(before, &c.Row, &r.Step, &r.Call.ID, &r.Call.WireID, &r.Call.Tool,
		&c.Arguments.Inline, &c.Arguments.Blob, &c.ArgumentsHash, &r.Attempt, &r.ClaimedAttempt, &r.Runs,
		&r.Repeatable, &r.Worker, &claimed, &r.Outcome, &c.Text.Inline, &c.Text.Blob,
		&r.FullBlob, &r.SizeBytes, &r.SettledAttempt, &settled, &r.DurationMS, &r.LateCount,
		&r.Suspended, &c.Continuation, &c.Media, &c.Notes, &r.Code)...)
	r.ClaimedAt, r.SettledAt = instant(claimed), instant(settled)
	return err
}

// insertWhole inserts the row of an imported call and returns its ID. turnRow is the row of its turn. It leaves out
// continuation_blob and notes, which exports do not have.
func (t *tx) insertWhole(turnRow int64, x CallRecord, arguments, text stored, media content) (id int64, err error) {
	err = t.Row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash,
		attempt, claimed_attempt, runs, repeatable, worker, claimed_at, outcome, text, text_blob, full_blob, size,
		settled_attempt, settled_at, duration_ms, late_count, suspended_attempt, media, code)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		turnRow, x.Step, x.Call.ID, x.Call.WireID, x.Call.Tool, arguments.Inline, arguments.Blob,
		HashOf([]byte(x.Call.Arguments)), x.Attempt, x.ClaimedAttempt, x.Runs, x.Repeatable, x.Worker,
		nanos(x.ClaimedAt), string(x.Outcome), text.Inline, text.Blob, textOrNull(x.FullBlob), x.SizeBytes, x.SettledAttempt,
		sql.NullInt64{Int64: nanos(x.SettledAt), Valid: x.Outcome != ""}, x.DurationMS, x.LateCount, x.Suspended,
		media, string(cleanCode(x.Outcome, x.Code))).Scan(&id)
	return id, err
}

// Call returns a call of a turn. If the ledger does not have the call, Row is 0 and only scope and Requests are set.
// The error wraps ErrNotFound if the turn does not exist.
func (q querier) Call(turnID, callID string) (c callRow, err error) {
	row := q.Row(`SELECT `+scopeColumns+
		`, EXISTS (SELECT 1 FROM requests w WHERE w.turn = t.id AND (w.request_id = ?1 OR w.call_id = ?1)),
		`+callColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN calls ON calls.turn = t.id AND calls.call_id = ?1 WHERE t.turn_id = ?2`, callID, turnID)
	err = c.Scan(row.Scan, append(c.fields(), &c.Requests)...)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("turn %s: %w", turnID, ErrNotFound)
	}
	c.Rec.Turn = c.TurnID
	return c, err
}

// Load sets the fields of c.Rec that may be in blobs: arguments, text, media and continuation. It keeps arguments and
// text that are set already, because the transaction has just stored them.
func (q querier) Load(c *callRow) (err error) {
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
