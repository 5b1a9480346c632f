package tables

import (
	"database/sql"
	"errors"
	"fmt"

	"encoding/json"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Attempt is an inference of a turn, with its running attempt, as the ledger has it.
type Attempt struct {
	Scope
	Row            int64            // of the ledger; 0 if the step was never started
	Inf            record.Inference // without the completion and the message: see Querier.LoadSettled
	Failed         int              // the last attempt whose failure was counted
	Emitted        bool             // the running attempt has emitted text
	PromptTokens   int64            // of the running attempt, by estimate; 0 until its provider begins to answer
	Expect         int64            // the head's seq before the step's results were appended
	HasLateResults bool             // the session has late results that its model has not been told
	completion     Stored
	raw            sql.NullString
}

// InferenceColumns are the columns of inferences i that Attempt.Scan reads. They may be null, for a LEFT JOIN.
const InferenceColumns = `coalesce(i.id, 0), coalesce(i.attempt, 0), coalesce(i.released, 0), coalesce(i.failures, 0), coalesce(i.failed_attempt, 0),
	coalesce(i.emitted, FALSE), coalesce(i.prompt_tokens, 0), coalesce(i.model, ''), coalesce(i.expect_seq, 0), coalesce(i.base_seq, 0), coalesce(i.base_hash, ''),
	coalesce(i.head_seq, 0), coalesce(i.head_hash, ''), i.completion, i.completion_blob, i.raw_blob,
	coalesce(i.started_at, 0), coalesce(i.settled_at, 0), coalesce(i.late_count, 0), coalesce(i.step, 0)`

// Scan scans a row into a. The columns of the row are those for the destinations in before, followed by
// InferenceColumns. Scan does not load blobs: see Querier.LoadSettled.
func (a *Attempt) Scan(scan func(...any) error, before ...any) error {
	var started, settled int64
	in := &a.Inf
	err := scan(append(before, &a.Row, &in.Attempt, &in.Released, &in.Failures, &a.Failed, &a.Emitted,
		&a.PromptTokens, &in.Model, &a.Expect,
		&in.Base.Seq, &in.Base.Hash,
		&in.Head.Seq, &in.Head.Hash, &a.completion.Inline, &a.completion.Blob, &a.raw, &started, &settled, &in.Late,
		&in.Key.Step)...)
	in.StartedAt, in.SettledAt = Instant(started), Instant(settled)
	in.Settled = a.completion.Inline.Valid || a.completion.Blob.Valid
	return err
}

const attemptColumns = scopeColumns + `, EXISTS (SELECT 1 FROM late_results l WHERE l.notify_session = t.session), ` +
	InferenceColumns

// Attempt returns an inference of a turn. If the step was never started, Row is 0 and only Scope, HasLateResults and
// Inf.Key are set. The error wraps record.ErrNotFound if the turn does not exist.
func (q Querier) Attempt(key record.StepKey) (a Attempt, err error) {
	row := q.Row(`SELECT `+attemptColumns+` FROM turns t JOIN sessions s ON s.id = t.session
		LEFT JOIN inferences i ON i.turn = t.id AND i.step = ? WHERE t.turn_id = ?`, key.Step, key.Turn)
	err = a.Scan(row.Scan, append(a.fields(), &a.HasLateResults)...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, fmt.Errorf("turn %s: %w", key.Turn, record.ErrNotFound)
	}
	a.Inf.Key = key
	return a, err
}

// LockedAttempt is Querier.Attempt with the rows of session, turn and inference locked, so that transactions of a
// session run one after the other. It locks and reads with one statement, which costs one round trip less than a lock
// and a query, and returns the rows as they are once they are locked, except for HasLateResults. A step that was
// never started is read without a lock.
func (t *Tx) LockedAttempt(key record.StepKey) (a Attempt, err error) {
	if t.Lock() == "" {
		return t.Attempt(key)
	}
	row := t.Row(`SELECT `+attemptColumns+
		` FROM sessions s JOIN turns t ON t.session = s.id JOIN inferences i ON i.turn = t.id
		WHERE i.step = ? AND t.turn_id = ?`+t.Lock(), key.Step, key.Turn)
	err = a.Scan(row.Scan, append(a.fields(), &a.HasLateResults)...)
	if errors.Is(err, sql.ErrNoRows) {
		return t.Attempt(key)
	}
	a.Inf.Key = key
	return a, err
}

// LoadSettled returns the record of a settled inference with its completion and its message.
func (q Querier) LoadSettled(a Attempt) (record.Inference, error) {
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
	if a.raw.Valid {
		a.Inf.Completion.Raw, err = q.GetBlob(a.raw.String)
	}
	return a.Inf, err
}

// SaveCompletion settles the inference's row: it stores a.Inf.Completion, and a.Head as the head after the assistant's
// message, which is a.Inf.Message. at is the time in nanoseconds since 1970.
func (t *Tx) SaveCompletion(a Attempt, at int64) error {
	answer, err := t.PutJSON(storeCompletion(a.Inf.Completion, a.Inf.Message.Text))
	if err != nil {
		return err
	}
	var raw sql.NullString
	if len(a.Inf.Completion.Raw) > 0 {
		raw.Valid = true
		if raw.String, err = t.PutBlob("application/json", a.Inf.Completion.Raw); err != nil {
			return err
		}
	}
	return t.Exec(`UPDATE inferences SET head_seq = ?, head_hash = ?, completion = ?, completion_blob = ?, raw_blob = ?,
		settled_at = ? WHERE id = ?`,
		a.Head.Seq, a.Head.Hash, answer.Inline, answer.Blob, raw, at, a.Row)
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
	return record.MustJSON(s)
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
