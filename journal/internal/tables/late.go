package tables

import (
	"database/sql"
	"time"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// InsertLateResult inserts a late result of a call. text, full and media are the columns of r's content. notify is the
// session whose model gets the result as a notice, or null. It returns sql.ErrNoRows if the ledger has this late result
// already.
func (t *Tx) InsertLateResult(call int64, attempt int, r turn.ToolResult, text Stored, full sql.NullString,
	media Content,
	notify sql.NullInt64, at time.Time) error {
	return t.Row(`INSERT INTO late_results (call, attempt, outcome, text, text_blob, full_blob, size, at, digest, media,
		notify_session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
		call, attempt, string(r.Outcome), text.Inline, text.Blob, full, r.SizeBytes, Nanos(at),
		digest(r, full.String, media.String), media, notify).Scan(new(int64))
}

// digest returns a hash of a late result's content, by which a repetition is recognized. full is the hash of the whole
// output and media the media column; both may be empty.
func digest(r turn.ToolResult, full, media string) string {
	content := string(r.Outcome) + "\x00" + full + "\x00" + r.Text
	if media != "" {
		content += "\x00" + media
	}
	return record.HashOf([]byte(content))
}

// LateResult is a row of late_results with its call.
type LateResult struct {
	Row   int64
	Call  record.CallRecord // only Call.ID and Call.Tool are set
	Late  record.LateResult
	text  Stored
	media Content
}

// LateResults returns the late results that the SQL condition where selects; it may also have ORDER BY and LIMIT. The
// tables are late_results l, calls c and turns t.
func (q Querier) LateResults(where string, args ...any) ([]LateResult, error) {
	list, err := Collect(q, func(scan Scanner) (r LateResult, err error) {
		var at int64
		l, c := &r.Late, &r.Call.Call
		err = scan(&r.Row, &l.Turn, &l.CallID, &c.Tool, &l.Attempt, &l.Outcome, &r.text.Inline, &r.text.Blob, &l.FullBlob,
			&l.SizeBytes, &at, &r.media, &l.NotifyModel)
		l.At, c.ID = Instant(at), l.CallID
		return r, err
	}, `SELECT l.id, t.turn_id, c.call_id, c.tool, l.attempt, l.outcome, l.text, l.text_blob, coalesce(l.full_blob, ''),
		l.size, l.at, l.media, l.notify_session IS NOT NULL
		FROM late_results l JOIN calls c ON c.id = l.call JOIN turns t ON t.id = c.turn WHERE `+where, args...)
	for i := range list {
		r := &list[i]
		if err == nil {
			r.Late.Text, err = q.getText(r.text)
		}
		if err == nil {
			r.Late.Media, err = readMedia(r.media)
		}
	}
	return list, err
}
