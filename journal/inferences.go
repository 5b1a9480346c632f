package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// StartInference opens the next attempt of an inference. Before its first attempt, it appends the results of the step
// before. Before every attempt, it appends what came in since the last inference: late results of the session's calls
// whose outcome was unknown, each once as a notice, and the messages that were merged into the turn. An attempt after
// one that has emitted text emits attempt_restarted. If the inference is settled, StartInference returns its completion
// with Settled set and changes nothing. ErrClosed if the turn has ended; ErrConflict if another writer has appended to
// the session; ErrBehind if the journal lacks the turn or the message in.Expect.
func (db *DB) StartInference(ctx context.Context, in StartInference) (out Inference, err error) {
	err = db.writeTurn(ctx, in.Key.Turn, stepName("starting", in.Key), func(t *tx) error {
		a, last, err := t.attemptAfterCalls(in.Key)
		if err != nil {
			return asErrBehind(err)
		}
		if err := a.Check(in.Session); err != nil {
			return err
		}
		if a.Head.Seq < in.Expect.Seq {
			return fmt.Errorf("its last message is %d, that of the turn %d: %w", a.Head.Seq, in.Expect.Seq, ErrBehind)
		}
		if a.Inf.Settled {
			if out, err = t.LoadSettled(a); err == nil {
				out.OtherUsage, err = otherUsage(t.querier, a)
			}
			if err == nil {
				out.Undelivered, err = t.undelivered(a.Session, in.Messages)
			}
			return err
		}
		if a.Closed {
			return ErrClosed
		}
		if a.Row == 0 {
			err = t.firstAttempt(&a, last, in)
		} else {
			err = t.nextAttempt(&a, in)
		}
		out = a.Inf
		out.Appended = a.Appended
		return err
	})
	return out, err
}

// asErrBehind makes an ErrNotFound also an ErrBehind, for a turn that a worker works on. Begin recorded the turn
// before, so a journal without it was restored to an earlier moment, or is another journal.
func asErrBehind(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrBehind, err)
	}
	return err
}

// stepName returns the context of an error about an inference: "<doing> step 3 of turn x".
func stepName(doing string, key StepKey) string {
	return fmt.Sprintf("%s step %d of turn %s", doing, key.Step, key.Turn)
}

// firstAttempt opens the first attempt of an inference: it appends the results of the step before and the messages that
// came in meanwhile, emits the phases BuildPrompt and LlmInfer, and inserts the inference's row. ErrConflict if the
// session's head is not in.Expect.
func (t *tx) firstAttempt(a *attemptRow, last requestedCalls, in StartInference) error {
	if in.Key.Step < 1 {
		return fmt.Errorf("step %d: steps count from 1", in.Key.Step)
	}
	if a.Head != in.Expect {
		return conflict(a.Head, in.Expect)
	}
	if err := t.appendResults(&a.scope, last, in.Outcomes, in.At, strict); err != nil {
		return err
	}
	if err := t.appendNewMessages(a, in); err != nil {
		return err
	}
	err := t.emit(&a.scope, phaseEvent(in.Key.Step, 0, in.At, turn.PhaseEvent{Phase: turn.PhaseBuildPrompt}),
		phaseEvent(in.Key.Step, 1, in.At, turn.PhaseEvent{Phase: turn.PhaseLlmInfer, Provider: CleanText(in.Provider),
			Model: CleanText(in.Model)}))
	if err != nil {
		return err
	}
	a.Inf.Attempt, a.Inf.Model, a.Inf.Base, a.Inf.StartedAt = 1, CleanText(in.Model), a.Head,
		instant(nanos(in.At))
	return t.Exec(`INSERT INTO inferences (turn, step, attempt, model, expect_seq, base_seq, base_hash, started_at)
		VALUES (?, ?, 1, ?, ?, ?, ?, ?)`,
		a.Turn, in.Key.Step, a.Inf.Model, in.Expect.Seq, a.Head.Seq, a.Head.Hash, nanos(in.At))
}

// appendNewMessages appends what came in since the last attempt or step: late results, the notice of commits that were
// taken back, and user messages.
func (t *tx) appendNewMessages(a *attemptRow, in StartInference) error {
	if a.HasNotices {
		if err := t.appendNotices(&a.scope, in.Key.Step, in.At); err != nil {
			return err
		}
		if err := t.appendTakenBack(&a.scope, in.Key.Step, in.At); err != nil {
			return err
		}
	}
	return t.appendUserMessages(&a.scope, in.Key.Step, in.Messages, in.At, strict)
}

// nextAttempt opens an attempt after the first one. It appends the messages that came in since the last attempt, so
// that the prompt has them. ErrConflict if the session's head is no longer the inference's base, because another
// writer has appended to the session, or if in.Expect is neither that base nor the head that the first attempt
// expected.
func (t *tx) nextAttempt(a *attemptRow, in StartInference) error {
	if a.Head != a.Inf.Base {
		return conflict(a.Head, a.Inf.Base)
	}
	if in.Expect != a.Inf.Base {
		if err := t.checkExpect(*a, in.Expect); err != nil {
			return err
		}
	}
	if err := t.appendNewMessages(a, in); err != nil {
		return err
	}
	a.Inf.Base = a.Head
	if a.Emitted || a.PromptTokens > 0 { // the provider had begun to answer the last attempt, so it may bill it
		lost, err := t.lostAttempt(*a)
		if err != nil {
			return err
		}
		a.Inf.Lost = lost
	}
	a.Inf.Attempt++
	a.Inf.Model, a.Inf.StartedAt = CleanText(in.Model), instant(nanos(in.At))
	if a.Emitted {
		e := turn.Event{Kind: turn.EventAttemptRestarted, Step: in.Key.Step, Attempt: a.Inf.Attempt, At: in.At}
		if err := t.emit(&a.scope, e); err != nil {
			return err
		}
	}
	return t.Exec(
		`UPDATE inferences SET attempt = ?, model = ?, started_at = ?, emitted = FALSE, prompt_tokens = 0, base_seq = ?, base_hash = ?
			WHERE id = ?`,
		a.Inf.Attempt, a.Inf.Model, nanos(in.At), a.Head.Seq, a.Head.Hash, a.Row)
}

// checkExpect returns an ErrConflict unless expect is the head that the first attempt expected. That head differs from
// the inference's base if the first attempt appended results or messages.
func (t *tx) checkExpect(a attemptRow, expect turn.Head) error {
	var hash string
	err := t.Row(`SELECT hash FROM messages WHERE session = ? AND seq = ?`, a.Session, expect.Seq).Scan(&hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	// hash is empty if there is no such message, as before the first one.
	if expect.Seq != a.Expect || expect.Hash != hash {
		return conflict(a.Head, expect)
	}
	return nil
}

// conflict returns an ErrConflict about a session whose head is not the expected one.
func conflict(head, expect turn.Head) error {
	return fmt.Errorf("the head is %d %.8s, not %d %.8s: %w", head.Seq, head.Hash, expect.Seq, expect.Hash, ErrConflict)
}

// SettleInference appends the assistant's message, settles the inference, and emits its last events,
// inference_completed and the phase ParseAction. If the inference
// is settled already, it returns the settled one, and counts in.Answer as late if another attempt settled it.
// ErrStale if a newer attempt runs, ErrClosed if the turn has ended.
func (db *DB) SettleInference(ctx context.Context, in SettleInference) (out Inference, err error) {
	if err := checkEvents(in.Events); err != nil {
		return out, fmt.Errorf("%s: %w", stepName("settling", in.Key), err)
	}
	in.Message.Role, in.Message.Step = turn.RoleAssistant, in.Key.Step
	err = db.writeTurn(ctx, in.Key.Turn, stepName("settling", in.Key), func(t *tx) error {
		a, settled, err := t.settleRunning(in)
		switch {
		case err != nil:
			return err
		case settled:
			out, err = t.afterSettlement(a, in)
			return err
		}
		if a, err = t.LockedAttempt(in.Key); err != nil {
			return err
		}
		if err := a.Check(in.Session); err != nil {
			return err
		}
		if a.Inf.Settled {
			out, err = t.settleRepeated(a, in)
			return err
		}
		if err := checkRunning(a, in.Attempt); err != nil {
			return err
		}
		out, err = t.settleInference(a, in)
		return err
	})
	return out, err
}

// settleRunning settles the inference's row if in.Attempt runs on in.Base, the head of the session, and returns it as
// it was before. Otherwise settled is false, nothing is changed, and the caller finds out why.
func (t *tx) settleRunning(in SettleInference) (a attemptRow, settled bool, err error) {
	a.scope = scope{TurnID: in.Key.Turn, SessionID: in.Session, Head: in.Base}
	m := cleanMessage(in.Message)
	m.TurnID = in.Key.Turn
	args, err := t.settlement(in, Next(in.Base, m), m, dayOf(in.At))
	if err != nil {
		return a, false, err
	}
	row := t.Row(settleColumns+` WHERE inferences.turn = (SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session
			WHERE t.turn_id = ?19 AND t.ended_at IS NULL AND s.session_id = ?20 AND s.head_seq = ?21 AND s.head_hash = ?22)
		AND inferences.step = ?23 AND inferences.attempt = ?24 AND inferences.settled_at IS NULL
		AND inferences.base_seq = ?21 AND inferences.base_hash = ?22
		RETURNING inferences.turn, (SELECT t.session FROM turns t WHERE t.id = inferences.turn),
			(SELECT s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = inferences.turn),
			(SELECT `+hasAccounts+` FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = inferences.turn), `+inferenceColumns,
		append(args, in.Key.Turn, in.Session, in.Base.Seq, in.Base.Hash, in.Key.Step, in.Attempt)...)
	err = a.Scan(row.Scan, &a.Turn, &a.Session, &a.Tenant, &a.HasAccounts)
	a.Inf.Key, a.Emitted = in.Key, true // the statement has set it unless it was set
	return a, err == nil, ignoreNoRows(err)
}

// settleRepeated is SettleInference for an inference that is settled already, which it returns. If in comes from the
// attempt that settled it, it is a repetition and changes nothing. Otherwise it is a late completion: it is counted,
// and its usage is recorded.
func (t *tx) settleRepeated(a attemptRow, in SettleInference) (out Inference, err error) {
	if in.Attempt != a.Inf.Attempt {
		a.Inf.Late++
		err = t.Exec(`UPDATE inferences SET late_count = late_count + 1 WHERE id = ?`, a.Row)
		if err == nil { // the provider bills a late completion too
			err = t.recordUsage(a.scope, AttemptUsage{Key: in.Key, Attempt: in.Attempt, Provider: in.Provider,
				Model: in.Model, Usage: in.Answer.Usage, At: in.At})
		}
		if err == nil && a.Closed {
			err = t.saveTurnUsage(a.scope)
		}
	}
	if err != nil {
		return a.Inf, err
	}
	if out, err = t.LoadSettled(a); err == nil {
		out.OtherUsage, err = otherUsage(t.querier, a)
	}
	return out, err
}

// checkRunning returns an error unless number is the running attempt of a step: ErrNotFound if that attempt was never
// started, ErrClosed if the turn has ended, ErrStale if a newer attempt runs.
func checkRunning(a attemptRow, number int) error {
	switch {
	case a.Row == 0 || number > a.Inf.Attempt || number < 1:
		return fmt.Errorf("attempt %d was never started: %w", number, ErrNotFound)
	case a.Closed:
		return ErrClosed
	case number < a.Inf.Attempt:
		return fmt.Errorf("attempt %d runs, not %d: %w", a.Inf.Attempt, number, ErrStale)
	}
	return nil
}

// settleInference settles an open inference. a must be the running attempt. ErrConflict if the session's head is not
// the inference's base.
func (t *tx) settleInference(a attemptRow, in SettleInference) (Inference, error) {
	if a.Head != a.Inf.Base {
		return a.Inf, conflict(a.Head, a.Inf.Base)
	}
	m := cleanMessage(in.Message)
	m.TurnID = a.TurnID
	args, err := t.settlement(in, Next(a.Head, m), m, dayOf(in.At))
	if err == nil {
		err = t.Exec(settleColumns+` WHERE id = ?19`, append(args, a.Row)...)
	}
	if err != nil {
		return a.Inf, err
	}
	a.Emitted = true // the statement has set it unless it was set
	return t.afterSettlement(a, in)
}

// afterSettlement emits the last events, appends the assistant's message and records the usage of an inference whose
// row has just been settled.
func (t *tx) afterSettlement(a attemptRow, in SettleInference) (Inference, error) {
	completed := turn.Event{Kind: turn.EventInferenceCompleted, At: in.At, Data: mustJSON(turn.InferenceEvent{Omitted: in.Answer.Omitted,
		Provider: CleanText(in.Provider), Model: CleanText(in.Model), LatencyMS: in.Latency.Milliseconds(), Usage: in.Answer.Usage})}
	parsed := phaseEvent(0, 0, in.At, turn.PhaseEvent{Phase: turn.PhaseParseAction})
	if err := t.emitDeltas(a, append(slices.Clip(in.Events), completed, parsed)); err != nil {
		return a.Inf, err
	}
	m, err := t.AppendMessage(&a.scope, in.Message)
	if err != nil {
		return a.Inf, err
	}
	a.Inf.Settled, a.Inf.Head, a.Inf.Message, a.Inf.SettledAt = true, a.Head, m, instant(nanos(in.At))
	a.Inf.Completion = cleanCompletion(in.Answer)
	a.Inf.Message.Items = a.Inf.Completion.Items // as LoadSettled sets them for a repetition
	if err := t.settleUsage(a, in); err != nil {
		return a.Inf, err
	}
	a.Inf.OtherUsage, err = otherUsage(t.querier, a)
	return a.Inf, err
}

// FailInference records the failure of an attempt and returns the number of failures of the step so far. It does not
// count an attempt if it or a later one was counted already, the step is settled, or the turn has ended. code and
// message say why the attempt failed; the journal keeps a preview of message. ErrNotFound if the attempt was never
// started.
func (db *DB) FailInference(ctx context.Context, key StepKey, attempt int, code turn.Code,
	message string) (failures int, err error) {
	err = db.write(ctx, stepName("counting a failure of", key), func(t *tx) error {
		a, err := t.LockedAttempt(key)
		if err != nil {
			return err
		}
		failures = a.Inf.Failures
		if a.Row == 0 || attempt > a.Inf.Attempt {
			return fmt.Errorf("attempt %d was never started: %w", attempt, ErrNotFound)
		}
		if a.Inf.Settled || a.Closed || attempt <= a.Failed {
			return nil
		}
		failures++
		return t.Exec(`UPDATE inferences SET failures = ?, failed_attempt = ?, failed_code = ?, failed_message = ?
			WHERE id = ?`,
			failures, attempt, string(code), contentOf(preview(CleanText(message),
				PreviewBytes)), a.Row)
	})
	return failures, err
}

// ReleaseInference records that the running attempt was never sent to a model; it changes nothing if the attempt has
// failed or the step is settled. Inference.Released counts such attempts. The next attempt gets a new number, because
// a worker that was believed dead may still use this one. ErrStale if a newer attempt runs, ErrClosed if the turn has
// ended, ErrNotFound if the attempt was never started.
func (db *DB) ReleaseInference(ctx context.Context, key StepKey, attempt int) error {
	return db.write(ctx, stepName("releasing", key), func(t *tx) error {
		a, err := t.LockedAttempt(key)
		if err == nil {
			err = checkRunning(a, attempt)
		}
		// No more attempts can have been released than were started.
		if err != nil || a.Inf.Settled || attempt <= a.Failed || a.Inf.Released >= attempt {
			return err
		}
		return t.Exec(`UPDATE inferences SET released = released + 1 WHERE id = ?`, a.Row)
	})
}

// StepMessage returns the assistant's message that settled the inference. ErrNotFound if the inference is not settled.
func (db *DB) StepMessage(ctx context.Context, key StepKey) (out turn.Message, err error) {
	err = db.read(ctx, stepName("reading the message of", key), func(q querier) error {
		a, err := q.Attempt(key)
		if err != nil {
			return err
		}
		if !a.Inf.Settled {
			return ErrNotFound
		}
		list, err := q.Messages(a.Session, a.Inf.Head.Seq, a.Inf.Head.Seq)
		if err == nil && len(list) == 1 {
			out = list[0]
		}
		return err
	})
	return out, err
}

// Inferences returns the ledger of a turn's inferences, ordered by step.
func (db *DB) Inferences(ctx context.Context, turnID string) ([]Inference, error) {
	return getOfNamedTurn(ctx, db, turnID, "listing the inferences", querier.Inferences)
}
