package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// attempt is a turn with one of its inferences. row is 0 if the step was never started.
type attempt struct {
	scope
	row            int64
	inf            Inference
	failed         int   // the last attempt whose failure was counted
	emitted        bool  // the running attempt has emitted text
	expect         int64 // the head's seq before the step's results were appended
	hasLateResults bool  // the session has late results that its model has not been told
	completion     stored
	raw            sql.NullString
}

const inferenceColumns = `coalesce(i.id, 0), coalesce(i.attempt, 0), coalesce(i.released, 0), coalesce(i.failures, 0), coalesce(i.failed_attempt, 0),
	coalesce(i.emitted, FALSE), coalesce(i.model, ''), coalesce(i.expect_seq, 0), coalesce(i.base_seq, 0), coalesce(i.base_hash, ''),
	coalesce(i.head_seq, 0), coalesce(i.head_hash, ''), i.completion, i.completion_blob, i.raw_blob,
	coalesce(i.started_at, 0), coalesce(i.settled_at, 0), coalesce(i.late_count, 0), coalesce(i.step, 0)`

// scan reads the fields before and then inferenceColumns.
func (a *attempt) scan(scan func(...any) error, before ...any) error {
	var started, settled int64
	in := &a.inf
	err := scan(append(before, &a.row, &in.Attempt, &in.Released, &in.Failures, &a.failed, &a.emitted, &in.Model,
		&a.expect,
		&in.Base.Seq, &in.Base.Hash,
		&in.Head.Seq, &in.Head.Hash, &a.completion.inline, &a.completion.blob, &a.raw, &started, &settled, &in.Late,
		&in.Key.Step)...)
	in.StartedAt, in.SettledAt = instant(started), instant(settled)
	in.Settled = a.completion.inline.Valid || a.completion.blob.Valid
	return err
}

const attemptColumns = scopeColumns + `, EXISTS (SELECT 1 FROM late_results l WHERE l.notify_session = t.session), ` +
	inferenceColumns

func (q querier) attempt(key StepKey) (a attempt, err error) {
	row := q.row(`SELECT `+attemptColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN inferences i ON i.turn = t.id AND i.step = ? WHERE t.turn_id = ?`, key.Step, key.Turn)
	err = a.scan(row.Scan, append(a.fields(), &a.hasLateResults)...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("turn %s: %w", key.Turn, ErrNotFound)
	}
	a.inf.Key = key
	return a, err
}

// lockedAttempt is attempt for a step that has been started. It locks the session, as writeTurn does, and reads the
// rows with the same statement: except for due, everything that it reads is locked and current.
func (t *tx) lockedAttempt(key StepKey) (a attempt, err error) {
	if t.Lock() == "" {
		return t.attempt(key)
	}
	row := t.row(`SELECT `+attemptColumns+
		` FROM sessions s JOIN turns t ON t.session = s.id JOIN inferences i ON i.turn = t.id
		WHERE i.step = ? AND t.turn_id = ?`+t.Lock(), key.Step, key.Turn)
	err = a.scan(row.Scan, append(a.fields(), &a.hasLateResults)...)
	if errors.Is(err, sql.ErrNoRows) {
		return t.attempt(key)
	}
	a.inf.Key = key
	return a, err
}

// loadSettled loads the completion and the message of a settled inference.
func (q querier) loadSettled(a attempt) (Inference, error) {
	messages, err := q.messages(a.session, a.inf.Head.Seq, a.inf.Head.Seq)
	if err != nil || len(messages) != 1 {
		return a.inf, errors.Join(err, fmt.Errorf("reading the answer of step %d: %d messages", a.inf.Key.Step,
			len(messages)))
	}
	a.inf.Message = messages[0]
	text, err := q.get(a.completion)
	if err != nil {
		return a.inf, err
	}
	if a.inf.Completion, err = restoreCompletion([]byte(text), a.inf.Message.Text); err != nil {
		return a.inf, err
	}
	if a.raw.Valid {
		a.inf.Completion.Raw, err = q.getBlob(a.raw.String)
	}
	return a.inf, err
}

// StartInference appends the results of the step before (see Result), late results of the session's calls whose outcome
// was unknown (see lateNotice; once each, with tool_call_late_result), and the messages that were merged into the turn.
// Then it opens an attempt of (turn, step). If the inference is settled, StartInference returns its completion with
// Settled set and changes nothing. A second attempt emits attempt_restarted if the first one has emitted text.
// ErrClosed, ErrConflict.
func (s *DB) StartInference(ctx context.Context, in StartInference) (out Inference, err error) {
	err = s.writeTurn(ctx, in.Key.Turn, stepName("starting", in.Key), func(t *tx) error {
		a, err := t.attempt(in.Key)
		if err != nil {
			return err
		}
		if err := a.check(in.Session); err != nil {
			return err
		}
		if a.inf.Settled {
			if out, err = t.loadSettled(a); err == nil {
				out.Undelivered, err = t.undelivered(a.session, in.Messages)
			}
			return err
		}
		if a.closed {
			return ErrClosed
		}
		if a.row == 0 {
			out, err = t.firstAttempt(a, in)
		} else {
			out, err = t.nextAttempt(a, in)
		}
		return err
	})
	return out, err
}

func stepName(doing string, key StepKey) string {
	return fmt.Sprintf("%s step %d of turn %s", doing, key.Step, key.Turn)
}

func (t *tx) firstAttempt(a attempt, in StartInference) (Inference, error) {
	if in.Key.Step < 1 {
		return a.inf, fmt.Errorf("step %d: steps count from 1", in.Key.Step)
	}
	if a.head != in.Expect {
		return a.inf, conflict(a.head, in.Expect)
	}
	if err := t.appendResults(&a.scope, in.Outcomes, in.At, strict); err != nil {
		return a.inf, err
	}
	if err := t.appendNewMessages(&a, in); err != nil {
		return a.inf, err
	}
	if a.head != in.Expect {
		if err := t.saveHead(a.scope); err != nil {
			return a.inf, err
		}
	}
	for _, c := range in.Chunks {
		c.Step, c.Attempt = in.Key.Step, 1
		if err := t.emit(&a.scope, c); err != nil {
			return a.inf, err
		}
	}
	a.inf.Attempt, a.inf.Model, a.inf.Base, a.inf.StartedAt = 1, CleanText(in.Model), a.head, instant(nanos(in.At))
	return a.inf, t.exec(`INSERT INTO inferences (turn, step, attempt, model, expect_seq, base_seq, base_hash, started_at)
		VALUES (?, ?, 1, ?, ?, ?, ?, ?)`,
		a.turn, in.Key.Step, a.inf.Model, in.Expect.Seq, a.head.Seq, a.head.Hash, nanos(in.At))
}

// appendNewMessages appends what came in since the step before, in addition to its results: late results and user
// messages.
func (t *tx) appendNewMessages(a *attempt, in StartInference) error {
	if a.hasLateResults {
		if err := t.appendNotices(&a.scope, in.Key.Step, in.At); err != nil {
			return err
		}
	}
	return t.appendUserMessages(&a.scope, in.Key.Step, in.Messages, in.At, strict)
}

// nextAttempt opens a later attempt. The head must still be the inference's base; otherwise another writer has appended
// to the session. Messages and notices that have come in since the last attempt are appended now.
func (t *tx) nextAttempt(a attempt, in StartInference) (Inference, error) {
	if a.head != a.inf.Base {
		return a.inf, conflict(a.head, a.inf.Base)
	}
	if in.Expect != a.inf.Base {
		if err := t.checkExpect(a, in.Expect); err != nil {
			return a.inf, err
		}
	}
	if err := t.appendNewMessages(&a, in); err != nil {
		return a.inf, err
	}
	if a.head != a.inf.Base {
		if err := t.saveHead(a.scope); err != nil {
			return a.inf, err
		}
		a.inf.Base = a.head
	}
	a.inf.Attempt++
	a.inf.Model, a.inf.StartedAt = CleanText(in.Model), instant(nanos(in.At))
	if a.emitted {
		c := turn.Chunk{Kind: turn.ChunkAttemptRestarted, Step: in.Key.Step, Attempt: a.inf.Attempt, At: in.At}
		if err := t.emit(&a.scope, c); err != nil {
			return a.inf, err
		}
	}
	return a.inf, t.exec(
		`UPDATE inferences SET attempt = ?, model = ?, started_at = ?, emitted = FALSE, base_seq = ?, base_hash = ?
			WHERE id = ?`,
		a.inf.Attempt, a.inf.Model, nanos(in.At), a.head.Seq, a.head.Hash, a.row)
}

// checkExpect checks expect against the head that the first attempt expected before it appended the step's results.
func (t *tx) checkExpect(a attempt, expect turn.Head) error {
	var hash string
	err := t.row(`SELECT hash FROM messages WHERE session = ? AND seq = ?`, a.session, expect.Seq).Scan(&hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if expect.Seq != a.expect || expect.Hash != hash {
		return conflict(a.head, expect)
	}
	return nil
}

func conflict(head, expect turn.Head) error {
	return fmt.Errorf("the head is %d %.8s, not %d %.8s: %w", head.Seq, head.Hash, expect.Seq, expect.Hash, ErrConflict)
}

// SettleInference appends the assistant's message, settles the inference and emits its last chunks. If the step is
// settled already, SettleInference returns the settled inference unchanged and counts the late completion. ErrStale if
// a newer attempt runs, ErrClosed.
func (s *DB) SettleInference(ctx context.Context, in SettleInference) (out Inference, err error) {
	if err := checkChunks(in.Chunks); err != nil {
		return out, fmt.Errorf("%s: %w", stepName("settling", in.Key), err)
	}
	err = s.write(ctx, stepName("settling", in.Key), func(t *tx) error {
		a, err := t.lockedAttempt(in.Key)
		if err != nil {
			return err
		}
		if err := a.check(in.Session); err != nil {
			return err
		}
		if a.inf.Settled {
			out, err = t.settleRepeated(a, in.Attempt)
			return err
		}
		if err := a.current(in.Attempt); err != nil {
			return err
		}
		out, err = t.settleInference(a, in)
		return err
	})
	return out, err
}

// settleRepeated handles a settlement of a settled step. A settlement by the attempt that settled the step is a
// repetition; any other one is a late completion.
func (t *tx) settleRepeated(a attempt, attempt int) (Inference, error) {
	if attempt != a.inf.Attempt {
		a.inf.Late++
		if err := t.exec(`UPDATE inferences SET late_count = late_count + 1 WHERE id = ?`, a.row); err != nil {
			return a.inf, err
		}
	}
	return t.loadSettled(a)
}

// current refuses an attempt that is not the running one.
func (a *attempt) current(attempt int) error {
	switch {
	case a.row == 0 || attempt > a.inf.Attempt || attempt < 1:
		return fmt.Errorf("attempt %d was never started: %w", attempt, ErrNotFound)
	case a.closed:
		return ErrClosed
	case attempt < a.inf.Attempt:
		return fmt.Errorf("attempt %d runs, not %d: %w", a.inf.Attempt, attempt, ErrStale)
	}
	return nil
}

func (t *tx) settleInference(a attempt, in SettleInference) (Inference, error) {
	if a.head != a.inf.Base {
		return a.inf, conflict(a.head, a.inf.Base)
	}
	if err := t.emitDeltas(a, in.Chunks); err != nil {
		return a.inf, err
	}
	in.Message.Role, in.Message.Step = turn.RoleAssistant, in.Key.Step
	m, err := t.appendMessage(&a.scope, in.Message)
	if err != nil {
		return a.inf, err
	}
	if err := t.saveHead(a.scope); err != nil {
		return a.inf, err
	}
	a.inf.Settled, a.inf.Head, a.inf.Message, a.inf.SettledAt = true, a.head, m, instant(nanos(in.At))
	a.inf.Completion = cleanCompletion(in.Answer)
	return a.inf, t.saveCompletion(a, nanos(in.At))
}

func (t *tx) saveCompletion(a attempt, at int64) error {
	answer, err := t.putJSON(storeCompletion(a.inf.Completion, a.inf.Message.Text))
	if err != nil {
		return err
	}
	var raw sql.NullString
	if len(a.inf.Completion.Raw) > 0 {
		raw.Valid = true
		if raw.String, err = t.putBlob("application/json", a.inf.Completion.Raw); err != nil {
			return err
		}
	}
	return t.exec(`UPDATE inferences SET head_seq = ?, head_hash = ?, completion = ?, completion_blob = ?, raw_blob = ?,
		settled_at = ? WHERE id = ?`,
		a.head.Seq, a.head.Hash, answer.inline, answer.blob, raw, at, a.row)
}

// FailInference counts a failure of an attempt and returns the number of the step's failures. The failure of an attempt
// counts once; failures of settled steps and closed turns do not count.
func (s *DB) FailInference(ctx context.Context, key StepKey, attempt int, code turn.Code,
	message string) (failures int, err error) {
	err = s.write(ctx, stepName("counting a failure of", key), func(t *tx) error {
		a, err := t.lockedAttempt(key)
		if err != nil {
			return err
		}
		failures = a.inf.Failures
		if a.row == 0 || attempt > a.inf.Attempt {
			return fmt.Errorf("attempt %d was never started: %w", attempt, ErrNotFound)
		}
		if a.inf.Settled || a.closed || attempt <= a.failed {
			return nil
		}
		failures++
		return t.exec(`UPDATE inferences SET failures = ?, failed_attempt = ?, failed_code = ?, failed_message = ?
			WHERE id = ?`,
			failures, attempt, string(code), contentOf(Preview(CleanText(message), PreviewBytes)), a.row)
	})
	return failures, err
}

// ReleaseInference records that an attempt was never sent to the model, so that it does not count as one. Its number is
// not given out again: a worker that was believed dead may still have it.
func (s *DB) ReleaseInference(ctx context.Context, key StepKey, attempt int) error {
	return s.write(ctx, stepName("releasing", key), func(t *tx) error {
		a, err := t.lockedAttempt(key)
		if err == nil {
			err = a.current(attempt)
		}
		if err != nil || a.inf.Settled || a.inf.Released >= attempt {
			return err
		}
		return t.exec(`UPDATE inferences SET released = released + 1 WHERE id = ?`, a.row)
	})
}
