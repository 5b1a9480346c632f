package portable

import (
	"encoding/json"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

// inferences writes the inferences of a part.
func (e *exporter) inferences(p part) error {
	type row struct {
		tables.Attempt
		line ExportInference
	}
	list, err := tables.Collect(e.Querier, func(scan tables.Scanner) (r row, err error) {
		r.Session = p.Session
		err = r.Scan(scan, &r.TurnID, &r.line.FailedCode, tables.Into(&r.line.FailedMessage))
		r.Inf.Key.Turn = r.TurnID
		return r, err
	}, `SELECT t.turn_id, i.failed_code, i.failed_message, `+tables.InferenceColumns+
		` FROM inferences i JOIN turns t ON t.id = i.turn
		WHERE `+partInferences+` ORDER BY t.id, i.step`, p.args()[:3]...)
	return writeAll(e, list, err, func(r row) (l Line, err error) {
		if r.Inf.Settled {
			r.Inf, err = e.LoadSettled(r.Attempt)
		}
		x := &r.line
		x.Inference, x.ExpectSeq, x.Emitted, x.FailedAttempt = r.Inf, r.Expect, r.Emitted, r.Failed
		x.Raw, x.Completion.Raw, x.Message = x.Completion.Raw, nil, turn.Message{} // see ExportInference
		return Line{Inference: x}, err
	})
}

// calls writes the calls of a part, each after the blobs of its artifacts.
func (e *exporter) calls(p part) error {
	list, err := tables.Collect(e.Querier, func(scan tables.Scanner) (c tables.Call, err error) {
		err = c.Scan(scan, &c.TurnID)
		c.Rec.Turn = c.TurnID
		return c, err
	}, `SELECT t.turn_id, `+tables.CallColumns+` FROM calls c JOIN turns t ON t.id = c.turn WHERE `+partCalls+` ORDER BY c.id`,
		p.args()...)
	return writeAll(e, list, err, func(c tables.Call) (l Line, err error) {
		if err = e.Load(&c); err == nil {
			err = e.writeBlobs(c.Rec.FullBlob, c.Rec.Media)
		}
		x := ExportCall{CallRecord: c.Rec, ClaimedAttempt: c.Granted, SettledAttempt: c.SettledAttempt}
		return Line{Call: &x}, err
	})
}

// lateResults writes the late results of the calls of a part, each after the blobs of its artifacts. Only the session's
// own calls keep NotifyModel: a late result of the shared past is reported to the session that the call belongs to.
func (e *exporter) lateResults(p part) error {
	list, err := e.Querier.LateResults(partCalls+` ORDER BY l.id`, p.args()...)
	return writeAll(e, list, err, func(r tables.LateResult) (Line, error) {
		r.Late.NotifyModel = r.Late.NotifyModel && p.own
		return Line{LateResult: &r.Late}, e.writeBlobs(r.Late.FullBlob, r.Late.Media)
	})
}

// requests writes the requests of a part.
func (e *exporter) requests(p part) error {
	list, err := e.Querier.Requests(partRequests+` ORDER BY w.id`, p.args()...)
	return writeAll(e, list, err, func(r tables.Request) (Line, error) {
		r.Rec.Session, r.Rec.ArgumentsBytes = "", r.Size
		return Line{Request: &r.Rec}, nil
	})
}

// grants writes the session's own grants. A fork does not inherit the grants of the forked session.
func (e *exporter) grants(p part) error {
	if !p.own {
		return nil
	}
	list, err := e.Querier.Grants(p.Session)
	return writeAll(e, list, err, func(g turn.Grant) (Line, error) { return Line{Grant: &g}, nil })
}

// events writes the events of the turns of a part, row by row, because there may be many. Of a split turn it writes
// only a turn_completed.
func (e *exporter) events(p part) error {
	err := e.Each(func(rows tables.Rows) error {
		var ev turn.Event
		if err := tables.ScanEvent(rows.Scan, &ev, &ev.Turn); err != nil {
			return err
		}
		return e.out.Write(Line{Event: &ev})
	}, `SELECT idx, step, attempt, kind, at, text, coalesce(data, ''), t.turn_id FROM events c
		JOIN turns t ON t.id = c.turn
		WHERE c.turn IN `+partTurns+` AND c.turn <> ?4 ORDER BY t.id, c.idx`, p.Session, p.Low, p.High, p.splitTurn)
	if err != nil || p.splitTurn == 0 {
		return err
	}
	return e.writeForkedTurnEnd(p.splitTurn)
}

// writeForkedTurnEnd writes the turn_completed of a split turn: see forkedTurn. The export has no other event of the
// turn.
func (e *exporter) writeForkedTurnEnd(turnRow int64) error {
	r, err := e.TurnRecord(`t.id = ?`, turnRow)
	if err != nil {
		return err
	}
	r = e.forkedTurn(r)
	data, err := json.Marshal(turn.DoneEvent{State: r.State, FinishReason: r.Reason, Message: r.Message})
	if err != nil {
		return err
	}
	return e.out.Write(Line{Event: &turn.Event{Turn: r.ID, Kind: turn.EventTurnCompleted, At: r.EndedAt, Data: data}})
}
