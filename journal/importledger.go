package journal

import (
	"database/sql"

	"github.com/everturn/everturn/workflows/turn"
)

func (im *importer) importInference(x ExportInference) error {
	return im.exec(`INSERT INTO inferences (turn, step, attempt, failures, failed_attempt, failed_code, failed_message, emitted, model,
		expect_seq, base_seq, base_hash, head_seq, head_hash, completion, completion_blob, raw_blob, started_at, settled_at,
			late_count)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		im.turns[x.Key.Turn], x.Key.Step, x.Attempt, x.Failures, x.FailedAttempt, string(x.FailedCode), x.FailedMessage,
		x.Emitted, x.Model,
		x.ExpectSeq, x.Base.Seq, x.Base.Hash, x.Head.Seq, x.Head.Hash, jsonColumn(x.Stored), null(x.StoredBlob),
		null(x.RawBlob),
		nanos(x.StartedAt), sql.NullInt64{Int64: nanos(x.SettledAt), Valid: x.Settled}, x.Late)
}

func (im *importer) importCall(x ExportCall) error {
	arguments := column(x.Call.Arguments, x.ArgumentsBlob)
	text := column(x.Text, x.TextBlob)
	settled := x.Outcome != ""
	if !settled {
		text = stored{}
	}
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	var row int64
	err = im.row(`INSERT INTO calls (turn, step, call_id, wire_id, tool, arguments, arguments_blob, arguments_hash, attempt, claimed_attempt,
		runs, repeatable, worker, claimed_at, outcome, text, text_blob, full_blob, size, settled_attempt, settled_at,
			duration_ms, late_count,
		suspended_attempt, media, code) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		im.turns[x.Turn], x.Step, x.Call.ID, x.Call.WireID, x.Call.Tool, arguments.inline, arguments.blob, x.ArgumentsHash,
		x.Attempt,
		x.ClaimedAttempt, x.Runs, x.Repeatable, x.Worker, nanos(x.ClaimedAt), string(x.Outcome), text.inline, text.blob,
		null(x.FullBlob), x.SizeBytes, x.SettledAttempt, sql.NullInt64{Int64: nanos(x.SettledAt), Valid: settled},
		x.DurationMS, x.LateCount,
		x.Suspended, media, string(cleanCode(x.Outcome, x.Code))).Scan(&row)
	if err != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, false)
}

func (im *importer) importLateResult(x ExportLateResult) error {
	text := column(x.Text, x.TextBlob)
	media, err := mediaColumn(x.Media)
	if err != nil {
		return err
	}
	var due sql.NullInt64
	if x.NotifyModel {
		due = numberOrNull(im.session)
	}
	var row int64
	err = im.row(`INSERT INTO late_results (call, attempt, outcome, text, text_blob, full_blob, size, at, digest, media, notify_session)
		VALUES ((SELECT id FROM calls WHERE turn = ? AND call_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING call`,
		im.turns[x.Turn], x.CallID, x.Attempt, string(x.Outcome), text.inline, text.blob, null(x.FullBlob), x.SizeBytes,
		nanos(x.At), x.Digest,
		media, due).Scan(&row)
	if err != nil {
		return err
	}
	return im.importArtifacts(row, x.FullBlob, x.Media, true)
}

// importArtifacts records the content that a call has left.
func (im *importer) importArtifacts(call int64, full string, media []turn.Media, late bool) error {
	if full != "" {
		err := im.exec(`INSERT INTO artifacts (session, hash, call, media_type, late) SELECT ?, hash, ?, media_type, ?
			FROM blobs WHERE hash = ? ON CONFLICT DO NOTHING`,
			im.session, call, late, full)
		if err != nil {
			return err
		}
	}
	for _, m := range media {
		if err := im.noteArtifact(im.session, call, m.Hash, m.Type, late); err != nil {
			return err
		}
	}
	return nil
}
