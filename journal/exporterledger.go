package journal

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

func (e *exporter) inferences(p part) error {
	type row struct {
		attempt
		line ExportInference
	}
	list, err := collect(e.querier, func(scan scanner) (r row, err error) {
		r.session = p.session
		err = r.scan(scan, &r.turnID, &r.line.FailedCode, into(&r.line.FailedMessage))
		r.inf.Key.Turn = r.turnID
		return r, err
	}, `SELECT t.turn_id, i.failed_code, i.failed_message, `+inferenceColumns+
		` FROM inferences i JOIN turns t ON t.id = i.turn
		WHERE `+partInferences+` ORDER BY t.id, i.step`, p.args()[:3]...)
	return writeAll(e, list, err, func(r row) (l Line, err error) {
		if r.inf.Settled {
			r.inf, err = e.loadSettled(r.attempt)
		}
		x := &r.line
		x.Inference, x.ExpectSeq, x.Emitted, x.FailedAttempt = r.inf, r.expect, r.emitted, r.failed
		x.Raw, x.Completion.Raw, x.Message = x.Completion.Raw, nil, turn.Message{}
		return Line{Inference: x}, err
	})
}

func (e *exporter) calls(p part) error {
	list, err := collect(e.querier, func(scan scanner) (c call, err error) {
		err = c.scan(scan, &c.turnID)
		c.rec.Turn = c.turnID
		return c, err
	}, `SELECT t.turn_id, `+callColumns+` FROM calls c JOIN turns t ON t.id = c.turn WHERE `+partCalls+` ORDER BY c.id`,
		p.args()...)
	return writeAll(e, list, err, func(c call) (l Line, err error) {
		if err = e.load(&c); err == nil {
			err = e.writeBlobs(c.rec.FullBlob, c.rec.Media)
		}
		x := ExportCall{CallRecord: c.rec, ClaimedAttempt: c.granted, SettledAttempt: c.settledAttempt}
		return Line{Call: &x}, err
	})
}

func (e *exporter) lateResults(p part) error {
	list, err := e.querier.lateResults(partCalls+` ORDER BY l.id`, p.args()...)
	return writeAll(e, list, err, func(r lateResult) (Line, error) {
		r.late.NotifyModel = r.late.NotifyModel && p.own
		return Line{LateResult: &r.late}, e.writeBlobs(r.late.FullBlob, r.late.Media)
	})
}

func (e *exporter) requests(p part) error {
	list, err := e.querier.requests(partRequests+` ORDER BY w.id`, p.args()...)
	return writeAll(e, list, err, func(w request) (Line, error) {
		w.rec.Session, w.rec.ArgumentsBytes = "", w.size
		return Line{Request: &w.rec}, nil
	})
}

// grants writes the session's own grants. A fork does not inherit the grants of the forked session.
func (e *exporter) grants(p part) error {
	if !p.own {
		return nil
	}
	list, err := e.querier.grants(p.session)
	return writeAll(e, list, err, func(g turn.Grant) (Line, error) { return Line{Grant: &g}, nil })
}

func (e *exporter) chunks(p part) error {
	err := e.each(func(rows Rows) error {
		var c turn.Chunk
		if err := scanChunk(rows.Scan, &c, &c.Turn); err != nil {
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
