package journal

import (
	"database/sql"
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

func (e *exporter) inferences(p part) error {
	return e.each(func(rows Rows) error {
		var a attempt
		var x ExportInference
		var turnID string
		if err := a.scan(rows.Scan, &turnID, &x.FailedCode, &x.FailedMessage); err != nil {
			return err
		}
		x.Inference, x.ExpectSeq, x.Emitted, x.FailedAttempt = a.inf, a.expect, a.emitted, a.failed
		x.Key.Turn = turnID
		x.Stored, x.StoredBlob, x.RawBlob = rawOf(a.completion), a.completion.blob.String, a.raw.String
		return e.out.Write(Line{Inference: &x})
	}, `SELECT t.turn_id, i.failed_code, i.failed_message, `+inferenceColumns+
		` FROM inferences i JOIN turns t ON t.id = i.turn
		WHERE `+partInferences+` ORDER BY t.id, i.step`, p.args()[:3]...)
}

func (e *exporter) calls(p part) error {
	return e.each(func(rows Rows) error {
		var c call
		var turnID string
		err := c.scan(rows.Scan, &turnID)
		if err == nil {
			c.rec.Media, err = readMedia(c.media)
		}
		if err != nil {
			return err
		}
		x := ExportCall{
			CallRecord: c.rec, ArgumentsBlob: c.arguments.blob.String, ArgumentsHash: c.argumentsHash,
			TextBlob:   c.text.blob.String,
			Repeatable: c.rec.Repeatable, ClaimedAttempt: c.granted, SettledAttempt: c.settledAttempt,
		}
		x.Turn, x.Call.Arguments, x.Text = turnID, c.arguments.inline.String, c.text.inline.String
		return e.out.Write(Line{Call: &x})
	}, `SELECT t.turn_id, `+callColumns+` FROM calls c JOIN turns t ON t.id = c.turn WHERE `+partCalls+` ORDER BY c.id`,
		p.args()...)
}

func (e *exporter) lateResults(p part) error {
	return e.each(func(rows Rows) error {
		var x ExportLateResult
		var at int64
		var media sql.NullString
		err := rows.Scan(&x.Turn, &x.CallID, &x.Attempt, &x.Outcome, &x.Text, &x.TextBlob, &x.FullBlob, &x.SizeBytes, &at,
			&x.Digest, &media, &x.NotifyModel)
		if err == nil {
			x.Media, err = readMedia(media)
		}
		if err != nil {
			return err
		}
		x.At, x.NotifyModel = instant(at), x.NotifyModel && p.own
		return e.out.Write(Line{LateResult: &x})
	}, `SELECT t.turn_id, c.call_id, l.attempt, l.outcome, coalesce(l.text, ''), coalesce(l.text_blob, ''), coalesce(l.full_blob, ''), l.size, l.at, l.digest,
		l.media, l.notify_session IS NOT NULL
		FROM late_results l JOIN calls c ON c.id = l.call JOIN turns t ON t.id = c.turn WHERE `+partCalls+` ORDER BY l.id`, p.args()...)
}

func (e *exporter) requests(p part) error {
	list, err := e.querier.requests(partRequests+` ORDER BY w.id`, p.args()...)
	for _, w := range list {
		if err != nil {
			break
		}
		x := ExportRequest{RequestRecord: w.rec, ArgumentsBlob: w.arguments.blob.String, ArgumentsBytes: w.size}
		x.Session, x.Arguments = "", w.arguments.inline.String
		err = e.out.Write(Line{Request: &x})
	}
	return err
}

// grants writes the session's own grants. A fork does not inherit the grants of the forked session.
func (e *exporter) grants(p part) error {
	if !p.own {
		return nil
	}
	list, err := e.querier.grants(p.session)
	for i := range list {
		if err == nil {
			err = e.out.Write(Line{Grant: &list[i]})
		}
	}
	return err
}

func (e *exporter) chunks(p part) error {
	err := e.each(func(rows Rows) error {
		var c turn.Chunk
		if err := scanChunk(rows, &c, &c.Turn); err != nil {
			return err
		}
		return e.out.Write(Line{Chunk: &c})
	}, `SELECT idx, step, attempt, kind, at, text, coalesce(data, ''), t.turn_id FROM chunks c
		JOIN turns t ON t.id = c.turn
		WHERE c.turn IN `+partTurns+` AND c.turn <> ?4 ORDER BY t.id, c.idx`, p.session, p.low, p.high, p.splitTurn)
	if err != nil || p.splitTurn == 0 {
		return err
	}
	return e.writeForkedTurnEnd(p.splitTurn)
}

// writeForkedTurnEnd writes the only chunk of a turn of which a fork has only the beginning: its turn_completed.
func (e *exporter) writeForkedTurnEnd(turnN int64) error {
	r, err := e.turnRecord(`t.id = ?`, turnN)
	if err != nil {
		return err
	}
	r = e.forkedTurn(r)
	data, err := json.Marshal(turn.DoneChunk{State: r.State, FinishReason: r.Reason, Message: r.Message})
	if err != nil {
		return err
	}
	return e.out.Write(Line{Chunk: &turn.Chunk{Turn: r.ID, Kind: turn.ChunkTurnCompleted, At: r.EndedAt, Data: data}})
}
