package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// attemptRow is an inference of a turn, with its running attempt, as the ledger has it.
type attemptRow struct {
	scope
	Row          int64     // of the ledger; 0 if the step was never started
	Inf          Inference // without the completion and the message: see querier.LoadSettled
	Failed       int       // the last attempt whose failure was counted
	Emitted      bool      // the running attempt has emitted text
	PromptTokens int64     // of the running attempt, by estimate; 0 until its provider begins to answer
	Expect       int64     // the head's seq before the step's results were appended
	HasNotices   bool      // the session has late results, or commits that were taken back, of which its model is not told
	HasAccounts  bool      // the tenant has accounts: see addSpending
	completion   stored
}

// inferenceColumns are the columns of inferences that attemptRow.Scan reads. They may be null, for a LEFT JOIN.
const inferenceColumns = `coalesce(inferences.id, 0), coalesce(inferences.attempt, 0), coalesce(inferences.released, 0), coalesce(inferences.failures, 0), coalesce(inferences.failed_attempt, 0),
	coalesce(inferences.emitted, FALSE), coalesce(inferences.prompt_tokens, 0), coalesce(inferences.model, ''), coalesce(inferences.expect_seq, 0), coalesce(inferences.base_seq, 0), coalesce(inferences.base_hash, ''),
	coalesce(inferences.head_seq, 0), coalesce(inferences.head_hash, ''), inferences.completion, inferences.completion_blob,
	coalesce(inferences.started_at, 0), coalesce(inferences.settled_at, 0), coalesce(inferences.late_count, 0), coalesce(inferences.step, 0)`

// Scan scans a row into a. The columns of the row are those for the destinations in before, followed by
// inferenceColumns. Scan does not load blobs: see querier.LoadSettled.
func (a *attemptRow) Scan(scan func(...any) error, before ...any) error {
	var started, settled int64
	in := &a.Inf
	err := scan(append(before, &a.Row, &in.Attempt, &in.Released, &in.Failures, &a.Failed, &a.Emitted,
		&a.PromptTokens, &in.Model, &a.Expect,
		&in.Base.Seq, &in.Base.Hash,
		&in.Head.Seq, &in.Head.Hash, &a.completion.Inline, &a.completion.Blob, &started, &settled, &in.Late,
		&in.Key.Step)...)
	in.StartedAt, in.SettledAt = instant(started), instant(settled)
	in.Settled = a.completion.Inline.Valid || a.completion.Blob.Valid
	return err
}

// hasNotices is the column of attemptRow.HasNotices, of turns t and sessions s.
const hasNotices = `(s.taken_back IS NOT NULL OR EXISTS (SELECT 1 FROM late_results l WHERE l.notify_session = t.session))`

// hasAccounts is the column of attemptRow.HasAccounts, of sessions s.
const hasAccounts = `EXISTS (SELECT 1 FROM spending p WHERE p.tenant = s.tenant)`

const attemptColumns = scopeColumns + `, ` + hasNotices + `, ` + hasAccounts + `, ` + inferenceColumns

// Attempt returns an inference of a turn. If the step was never started, Row is 0 and only scope, HasNotices and
// Inf.Key are set. The error wraps ErrNotFound if the turn does not exist.
func (q querier) Attempt(key StepKey) (a attemptRow, err error) {
	row := q.Row(`SELECT `+attemptColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN inferences ON inferences.turn = t.id AND inferences.step = ? WHERE t.turn_id = ?`, key.Step, key.Turn)
	err = a.Scan(row.Scan, append(a.fields(), &a.HasNotices, &a.HasAccounts)...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("turn %s: %w", key.Turn, ErrNotFound)
	}
	a.Inf.Key = key
	return a, err
}

// attemptAfterCalls returns the inference like Attempt, and the calls of the turn's last assistant message, which are
// those of the step before.
func (t *tx) attemptAfterCalls(key StepKey) (a attemptRow, last requestedCalls, err error) {
	err = t.Each(func(rows Rows) error {
		return last.scan(func(into ...any) error {
			return a.Scan(rows.Scan, append(append(a.fields(), &a.HasNotices), into...)...)
		})
	}, `SELECT `+scopeColumns+`, `+hasNotices+`, `+requestedColumns+`, `+inferenceColumns+` FROM turns t
		JOIN sessions s ON s.id = t.session LEFT JOIN inferences ON inferences.turn = t.id AND inferences.step = ?`+
		requestedJoins+` WHERE t.turn_id = ?`, key.Step, key.Turn)
	if err == nil && a.Turn == 0 {
		err = fmt.Errorf("turn %s: %w", key.Turn, ErrNotFound)
	}
	a.Inf.Key = key
	return a, last, err
}

// LockedAttempt is querier.Attempt with the rows of session, turn and inference locked, so that transactions of a
// session run one after the other. It locks and reads with one statement, which costs one round trip less than a lock
// and a query, and returns the rows as they are once they are locked, except for HasNotices. A step that was
// never started is read without a lock.
func (t *tx) LockedAttempt(key StepKey) (a attemptRow, err error) {
	if t.Lock() == "" {
		return t.Attempt(key)
	}
	row := t.Row(`SELECT `+attemptColumns+
		` FROM sessions s JOIN turns t ON t.session = s.id JOIN inferences ON inferences.turn = t.id
		WHERE inferences.step = ? AND t.turn_id = ?`+t.Lock(), key.Step, key.Turn)
	err = a.Scan(row.Scan, append(a.fields(), &a.HasNotices, &a.HasAccounts)...)
	if errors.Is(err, sql.ErrNoRows) {
		return t.Attempt(key)
	}
	a.Inf.Key = key
	return a, err
}

// LoadSettled returns the record of a settled inference with its completion and its message.
func (q querier) LoadSettled(a attemptRow) (Inference, error) {
	messages, err := q.Messages(a.Session, a.Inf.Head.Seq, a.Inf.Head.Seq)
	if err != nil || len(messages) != 1 {
		return a.Inf, errors.Join(err, fmt.Errorf("reading the answer of step %d: %d messages", a.Inf.Key.Step,
			len(messages)))
	}
	a.Inf.Message = messages[0]
	text, err := q.getText(a.completion)
	if err != nil {
		return a.Inf, err
	}
	if a.Inf.Completion, err = restoreCompletion([]byte(text), a.Inf.Message.Text); err != nil {
		return a.Inf, err
	}
	a.Inf.Message.Items = a.Inf.Completion.Items
	var raw []byte
	var encoding string
	err = q.Row(`SELECT raw, raw_encoding FROM inferences WHERE id = ?`, a.Row).Scan(&raw, &encoding)
	if err != nil || raw == nil {
		return a.Inf, err
	}
	if raw, err = q.sealer.open(raw); err == nil {
		a.Inf.Completion.Raw, err = decode(encoding, raw)
	}
	return a.Inf, err
}

// settleColumns is the beginning of the statement that settles the row of an inference; its arguments are those of
// tx.settlement.
const settleColumns = `UPDATE inferences SET head_seq = ?1, head_hash = ?2, completion = ?3, completion_blob = ?4, raw = ?5,
	raw_encoding = ?6, settled_at = ?7, emitted = emitted OR CAST(?8 AS BOOLEAN), provider = ?9, input_tokens = ?10,
	cached_tokens = ?11, cache_write_tokens = ?12, output_tokens = ?13, reasoning_tokens = ?14, cost = ?15, unpriced = ?16,
	estimated = ?17, day = coalesce((SELECT r.day FROM inference_usage r WHERE r.turn = inferences.turn
		AND r.step = inferences.step AND r.attempt = inferences.attempt), ?18)`

// settlement returns the arguments of settleColumns. head is the head after the message m, which the completion
// becomes. Its usage counts for the day of its reservation or else for day, or for none if day is "" or if the turn's
// plan, and no provider, has made the completion.
func (t *tx) settlement(in SettleInference, head turn.Head, m turn.Message, day string) ([]any, error) {
	answer, err := t.PutJSON(storeCompletion(cleanCompletion(in.Answer), m.Text))
	if err != nil {
		return nil, err
	}
	if in.Answer.Plan {
		day = ""
	}
	encoding, raw := "", []byte(nil)
	if len(in.Answer.Raw) > 0 {
		encoding, raw = encode("application/json", in.Answer.Raw)
		raw, err = t.sealer.seal(raw)
	}
	u := in.Answer.Usage
	return []any{head.Seq, head.Hash, answer.Inline, answer.Blob, raw, encoding, nanos(in.At), hasText(in.Events),
		CleanText(in.Provider), u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		int64(u.Cost), u.Unpriced, u.Estimated, textOrNull(day)}, err
}

// storedCompletion is a completion as the journal keeps it: without Raw, which is a blob, and without the text if
// the transcript's message has the same text.
type storedCompletion struct {
	turn.Completion
	SameText bool `json:"same_text,omitempty"`
}

// storeCompletion encodes a completion for storage beside the message that was appended for it. The caller stores Raw.
func storeCompletion(c turn.Completion, messageText string) json.RawMessage {
	c.Raw = nil
	s := storedCompletion{Completion: c, SameText: c.Text == messageText}
	if s.SameText {
		s.Text = ""
	}
	return mustJSON(s)
}

// restoreCompletion decodes the result of storeCompletion.
func restoreCompletion(b []byte, messageText string) (turn.Completion, error) {
	var s storedCompletion
	if err := json.Unmarshal(b, &s); err != nil {
		return turn.Completion{}, fmt.Errorf("reading a stored answer: %w", err)
	}
	if s.SameText {
		s.Text = messageText
	}
	return s.Completion, nil
}
