package journal

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// settleLate keeps a settlement of a call that has an outcome already, in late_results, and sets c.Rec.Late. If it
// repeats a late one that is kept already, it only sets c.Rec.Late. If it repeats the first settlement, it changes
// nothing.
func (t *tx) settleLate(c *callRow, attempt int, r turn.ToolResult, at time.Time) error {
	if err := t.Load(c); err != nil {
		return err
	}
	late := *c // gets the columns of the late result; those of c stay
	full, err := t.putResult(&late, r)
	if err != nil {
		return err
	}
	isRepetition := attempt == c.Rec.SettledAttempt && r.Outcome == c.Rec.Outcome && r.Text == c.Rec.Text &&
		full.String == c.Rec.FullBlob && late.Media == c.Media
	if isRepetition {
		return nil
	}
	c.Rec.Late = true
	notify, err := t.sessionToNotify(c, attempt, r)
	if err != nil {
		return err
	}
	err = t.InsertLateResult(c.Row, attempt, r, late.Text, full, late.Media, notify, at)
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
func (t *tx) sessionToNotify(c *callRow, attempt int, r turn.ToolResult) (sql.NullInt64, error) {
	if c.Rec.Outcome != turn.OutcomeUnknown || r.Outcome == turn.OutcomeUnknown {
		return sql.NullInt64{}, nil
	}
	var earlier int // late results of the attempt that gave a notice
	err := t.Row(`SELECT count(*) FROM late_results WHERE call = ? AND attempt = ? AND outcome <> ?`, c.Row, attempt,
		string(turn.OutcomeUnknown)).Scan(&earlier)
	if err != nil || earlier > 0 {
		return sql.NullInt64{}, err
	}
	return numberOrNull(c.Session), nil
}

// appendNotices appends a notice for each late result of the session's calls that its model has not got yet, at most
// MaxNotices. They follow the results of the step before; step is the step whose prompt contains them.
func (t *tx) appendNotices(sc *scope, step int, at time.Time) error {
	list, err := t.LateResults(`l.notify_session = ? ORDER BY l.id LIMIT ?`, sc.Session, MaxNotices)
	if err != nil {
		return err
	}
	for _, result := range list {
		if err := t.appendNotice(sc, step, result, at); err != nil {
			return err
		}
		if err := t.Exec(`UPDATE late_results SET notify_session = NULL WHERE id = ?`, result.row); err != nil {
			return err
		}
	}
	return nil
}

// appendNotice appends the notice of one late result as a user message, unless the session has it already, and emits
// tool_call_late_result. The answer of a subagent is shown to followers as an added message instead.
func (t *tx) appendNotice(sc *scope, step int, late LateResult, at time.Time) error {
	id := late.noticeID()
	exists, err := t.HasMessage(sc.Session, id)
	if err != nil || exists {
		return err
	}
	m := turn.Message{ID: id, Role: turn.RoleUser, Text: late.notice(), Step: step}
	if strings.HasPrefix(late.tool, turn.AgentTools) {
		return t.addMessage(sc, step, m, at)
	}
	if _, err := t.AppendMessage(sc, m); err != nil {
		return err
	}
	return t.emitData(sc, turn.Event{Kind: turn.EventToolCallLateResult, Step: step, At: at}, turn.CallEvent{
		CallID: late.CallID, Tool: late.tool, Outcome: late.Outcome, SizeBytes: late.SizeBytes,
		Preview: preview(late.Text, PreviewBytes),
	})
}

// InsertLateResult inserts a late result of a call. text, full and media are the columns of r's content. notify is the
// session whose model gets the result as a notice, or null. It returns sql.ErrNoRows if the ledger has this late result
// already.
func (t *tx) InsertLateResult(call int64, attempt int, r turn.ToolResult, text stored, full sql.NullString,
	media content,
	notify sql.NullInt64, at time.Time) error {
	return t.Row(`INSERT INTO late_results (call, attempt, outcome, text, text_blob, full_blob, size, at, digest, media,
		notify_session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
		call, attempt, string(r.Outcome), text.Inline, text.Blob, full, r.SizeBytes, nanos(at),
		digest(r, full.String, media.String), media, notify).Scan(new(int64))
}

// digest returns a hash of a late result's content, by which a repetition is recognized. full is the hash of the whole
// output and media the media column; both may be empty.
func digest(r turn.ToolResult, full, media string) string {
	content := string(r.Outcome) + "\x00" + full + "\x00" + r.Text
	if media != "" {
		content += "\x00" + media
	}
	return HashOf([]byte(content))
}

// LateResults returns the late results that the SQL condition where selects; it may also have ORDER BY and LIMIT. The
// tables are late_results l, calls and turns t.
func (q querier) LateResults(where string, args ...any) ([]LateResult, error) {
	list, err := collect(q, func(scan scanner) (r LateResult, err error) {
		var at int64
		err = scan(&r.row, &r.Turn, &r.CallID, &r.tool, &r.Attempt, &r.Outcome, &r.text.Inline, &r.text.Blob, &r.FullBlob,
			&r.SizeBytes, &at, &r.media, &r.NotifyModel)
		r.At = instant(at)
		return r, err
	}, `SELECT l.id, t.turn_id, calls.call_id, calls.tool, l.attempt, l.outcome, l.text, l.text_blob, coalesce(l.full_blob, ''),
		l.size, l.at, l.media, l.notify_session IS NOT NULL
		FROM late_results l JOIN calls ON calls.id = l.call JOIN turns t ON t.id = calls.turn WHERE `+where, args...)
	for i := range list {
		r := &list[i]
		if err == nil {
			r.Text, err = q.getText(r.text)
		}
		if err == nil {
			r.Media, err = readMedia(r.media)
		}
	}
	return list, err
}
