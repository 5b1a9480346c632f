package journal

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// settleLate keeps a settlement of a call that has an outcome already, in late_results, and sets c.Rec.Late. If in
// repeats a late one that is kept already, it only sets c.Rec.Late. If in repeats the first settlement, it changes
// nothing.
func (t *tx) settleLate(c *call, in SettleInput) error {
	if err := t.Load(c); err != nil {
		return err
	}
	late := *c // gets the columns of the late result; those of c stay
	full, err := t.putResult(&late, in.Result)
	if err != nil {
		return err
	}
	isRepetition := in.Attempt == c.SettledAttempt && in.Result.Outcome == c.Rec.Outcome &&
		in.Result.Text == c.Rec.Text && full.String == c.Rec.FullBlob && late.Media == c.Media
	if isRepetition {
		return nil
	}
	c.Rec.Late = true
	notify, err := t.sessionToNotify(c, in)
	if err != nil {
		return err
	}
	err = t.InsertLateResult(c.Row, in.Attempt, in.Result, late.Text, full, late.Media, notify, in.At)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it is kept already
	}
	if err != nil {
		return err
	}
	c.Rec.LateCount++
	return errors.Join(t.EndSubagent(c.Row, true), // the answer of a subagent in the background is a late result
		t.Exec(`UPDATE calls SET late_count = late_count + 1 WHERE id = ?`, c.Row))
}

// sessionToNotify returns the row of the call's session if its model must get the late result as a notice, and null
// otherwise. The model gets a notice if the recorded outcome of the call is unknown and the late result has a known
// one, once for each attempt.
func (t *tx) sessionToNotify(c *call, in SettleInput) (sql.NullInt64, error) {
	if c.Rec.Outcome != turn.OutcomeUnknown || in.Result.Outcome == turn.OutcomeUnknown {
		return sql.NullInt64{}, nil
	}
	var earlier int // late results of the attempt that gave a notice
	err := t.Row(`SELECT count(*) FROM late_results WHERE call = ? AND attempt = ? AND outcome <> ?`, c.Row, in.Attempt,
		string(turn.OutcomeUnknown)).Scan(&earlier)
	if err != nil || earlier > 0 {
		return sql.NullInt64{}, err
	}
	return tables.NumberOrNull(c.Session), nil
}

// appendNotices appends a notice for each late result of the session's calls that its model has not got yet, at most
// record.MaxNotices. They follow the results of the step before; step is the step whose prompt contains them.
func (t *tx) appendNotices(sc *scope, step int, at time.Time) error {
	list, err := t.LateResults(`l.notify_session = ? ORDER BY l.id LIMIT ?`, sc.Session, record.MaxNotices)
	if err != nil {
		return err
	}
	for _, result := range list {
		if err := t.appendNotice(sc, step, result, at); err != nil {
			return err
		}
		if err := t.Exec(`UPDATE late_results SET notify_session = NULL WHERE id = ?`, result.Row); err != nil {
			return err
		}
	}
	return nil
}

// appendNotice appends the notice of one late result as a user message, unless the session has it already, and emits
// tool_call_late_result. The answer of a subagent is shown to followers as an added message instead.
func (t *tx) appendNotice(sc *scope, step int, result tables.LateResult, at time.Time) error {
	id := record.NoticeID(result.Call, result.Late)
	exists, err := t.HasMessage(sc.Session, id)
	if err != nil || exists {
		return err
	}
	m := turn.Message{ID: id, Role: turn.RoleUser, Text: record.LateNotice(result.Call, result.Late), Step: step}
	if strings.HasPrefix(result.Call.Call.Tool, turn.AgentTools) {
		return t.addMessage(sc, step, m, at)
	}
	if _, err := t.AppendMessage(sc, m); err != nil {
		return err
	}
	return t.emitData(sc, turn.Event{Kind: turn.EventToolCallLateResult, Step: step, At: at}, turn.CallEvent{
		CallID: result.Late.CallID, Tool: result.Call.Call.Tool, Outcome: result.Late.Outcome, SizeBytes: result.Late.SizeBytes,
		Preview: record.Preview(result.Late.Text, record.PreviewBytes),
	})
}
