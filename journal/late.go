package journal

import (
	"database/sql"
	"errors"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// settleLate keeps a settlement that is not the first, once. A repetition of the first settlement is not kept.
func (t *tx) settleLate(c *call, in SettleInput) error {
	if err := t.load(c); err != nil {
		return err
	}
	late := *c
	full, err := t.putResult(&late, in.Result)
	if err != nil {
		return err
	}
	if in.Attempt == c.settledAttempt && in.Result.Outcome == c.rec.Outcome && in.Result.Text == c.rec.Text &&
		full.String == c.rec.FullBlob &&
		late.media == c.media {
		return nil
	}
	c.rec.Late = true
	due, err := t.sessionToNotify(c, in)
	if err != nil {
		return err
	}
	err = t.insertLateResult(c.row, in.Attempt, in.Result, late.text, full, late.media, due, in.At)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it is kept already
	}
	if err != nil {
		return err
	}
	c.rec.LateCount++
	return t.exec(`UPDATE calls SET late_count = late_count + 1 WHERE id = ?`, c.row)
}

// insertLateResult returns sql.ErrNoRows if the ledger has this late result.
func (t *tx) insertLateResult(call int64, attempt int, r turn.ToolResult, text stored, full sql.NullString,
	media content,
	notify sql.NullInt64, at time.Time) error {
	return t.row(`INSERT INTO late_results (call, attempt, outcome, text, text_blob, full_blob, size, at, digest, media,
		notify_session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
		call, attempt, string(r.Outcome), text.inline, text.blob, full, r.SizeBytes, nanos(at),
		digest(r, full.String, media.String), media, notify).Scan(new(int64))
}

// digest distinguishes the late results of one attempt.
func digest(r turn.ToolResult, full, media string) string {
	what := string(r.Outcome) + "\x00" + full + "\x00" + r.Text
	if media != "" {
		what += "\x00" + media
	}
	return HashOf([]byte(what))
}

// sessionToNotify returns the session whose model must be told of a late result, null if there is none. The model is
// told if it knows the call's outcome as unknown, and only once for each attempt.
func (t *tx) sessionToNotify(c *call, in SettleInput) (sql.NullInt64, error) {
	if c.rec.Outcome != turn.OutcomeUnknown || in.Result.Outcome == turn.OutcomeUnknown {
		return sql.NullInt64{}, nil
	}
	var told int
	err := t.row(`SELECT count(*) FROM late_results WHERE call = ? AND attempt = ? AND outcome <> ?`, c.row, in.Attempt,
		string(turn.OutcomeUnknown)).Scan(&told)
	if err != nil || told > 0 {
		return sql.NullInt64{}, err
	}
	return numberOrNull(c.session), nil
}

// lateResult is a row of late_results with its call, of which only the tool and the ID are set.
type lateResult struct {
	row   int64
	call  CallRecord
	late  ExportLateResult
	text  stored
	media content
}

// appendNotices tells the model the late results of its session's calls whose outcome was unknown. The notices follow
// the results of the step before; step is the step whose prompt contains them.
func (t *tx) appendNotices(sc *scope, step int, at time.Time) error {
	list, err := t.lateResults(`l.notify_session = ? ORDER BY l.id LIMIT ?`, sc.session, MaxNotices)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := t.notice(sc, step, d, at); err != nil {
			return err
		}
		if err := t.exec(`UPDATE late_results SET notify_session = NULL WHERE id = ?`, d.row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) notice(sc *scope, step int, d lateResult, at time.Time) error {
	id := LateID(d.late.Turn, d.late.CallID, d.late.Attempt)
	had, err := t.hasMessage(sc.session, id)
	if err != nil || had {
		return err
	}
	m := turn.Message{ID: id, Role: turn.RoleUser, Text: lateNotice(d.call, d.late), Step: step}
	if _, err := t.appendMessage(sc, m); err != nil {
		return err
	}
	return t.emitData(sc, turn.Chunk{Kind: turn.ChunkToolCallLateResult, Step: step, At: at}, turn.CallChunk{
		CallID: d.late.CallID, Tool: d.call.Call.Tool, Outcome: d.late.Outcome, SizeBytes: d.late.SizeBytes,
		Preview: Preview(d.late.Text, PreviewBytes),
	})
}

// lateResults returns the late results that the condition where selects.
func (q querier) lateResults(where string, args ...any) ([]lateResult, error) {
	list, err := collect(q, func(scan scanner) (r lateResult, err error) {
		var at int64
		l, c := &r.late, &r.call.Call
		err = scan(&r.row, &l.Turn, &l.CallID, &c.Tool, &l.Attempt, &l.Outcome, &r.text.inline, &r.text.blob, &l.FullBlob,
			&l.SizeBytes, &at, &r.media, &l.NotifyModel)
		l.At, c.ID = instant(at), l.CallID
		return r, err
	}, `SELECT l.id, t.turn_id, c.call_id, c.tool, l.attempt, l.outcome, l.text, l.text_blob, coalesce(l.full_blob, ''),
		l.size, l.at, l.media, l.notify_session IS NOT NULL
		FROM late_results l JOIN calls c ON c.id = l.call JOIN turns t ON t.id = c.turn WHERE `+where, args...)
	for i := range list {
		r := &list[i]
		if err == nil {
			r.late.Text, err = q.get(r.text)
		}
		if err == nil {
			r.late.Media, err = readMedia(r.media)
		}
	}
	return list, err
}
