package journal

import (
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// inferences writes the inferences of a part.
func (e *exporter) inferences(p part) error {
	type row struct {
		attemptRow
		line ExportInference
	}
	list, err := collect(e.querier, func(scan scanner) (r row, err error) {
		r.Session = p.Session
		err = r.Scan(scan, &r.TurnID, &r.line.FailedCode, intoContent(&r.line.FailedMessage))
		r.Inf.Key.Turn = r.TurnID
		return r, err
	}, `SELECT t.turn_id, inferences.failed_code, inferences.failed_message, `+inferenceColumns+
		` FROM inferences JOIN turns t ON t.id = inferences.turn
		WHERE `+partInferences+` ORDER BY t.id, inferences.step`, p.args()[:3]...)
	return writeAll(e, list, err, func(r row) (l ExportLine, err error) {
		if r.Inf.Settled {
			r.Inf, err = e.LoadSettled(r.attemptRow)
		}
		x := &r.line
		x.Inference, x.ExpectSeq, x.Emitted, x.FailedAttempt = r.Inf, r.Expect, r.Emitted, r.Failed
		x.Raw, x.Completion.Raw, x.Message = x.Completion.Raw, nil, turn.Message{} // see ExportInference
		return ExportLine{Inference: x}, err
	})
}

// calls writes the calls of a part, each after the blobs of its artifacts.
func (e *exporter) calls(p part) error {
	list, err := collect(e.querier, func(scan scanner) (c callRow, err error) {
		err = c.Scan(scan, &c.TurnID)
		c.Rec.Turn = c.TurnID
		return c, err
	}, `SELECT t.turn_id, `+callColumns+` FROM calls JOIN turns t ON t.id = calls.turn WHERE `+partCalls+` ORDER BY calls.id`,
		p.args()...)
	return writeAll(e, list, err, func(c callRow) (l ExportLine, err error) {
		if err = e.Load(&c); err == nil {
			err = e.writeBlobs(c.Rec.FullBlob, c.Rec.Media)
		}
		return ExportLine{Call: &c.Rec}, err
	})
}

// lateResults writes the late results of the calls of a part, each after the blobs of its artifacts. Only the session's
// own calls keep NotifyModel: a late result of the shared past is reported to the session that the call belongs to.
func (e *exporter) lateResults(p part) error {
	list, err := e.querier.LateResults(partCalls+` ORDER BY l.id`, p.args()...)
	return writeAll(e, list, err, func(r LateResult) (ExportLine, error) {
		r.NotifyModel = r.NotifyModel && p.own
		return ExportLine{LateResult: &r}, e.writeBlobs(r.FullBlob, r.Media)
	})
}

// requests writes the requests of a part.
func (e *exporter) requests(p part) error {
	list, err := e.querier.Requests(partRequests+` ORDER BY w.id`, p.args()...)
	return writeAll(e, list, err, func(r requestRow) (ExportLine, error) {
		r.Rec.Session = ""
		return ExportLine{Request: &r.Rec}, nil
	})
}

// grants writes the session's own grants. A fork does not inherit the grants of the forked session.
func (e *exporter) grants(p part) error {
	if !p.own {
		return nil
	}
	list, err := e.querier.Grants(p.Session)
	return writeAll(e, list, err, func(g turn.Grant) (ExportLine, error) { return ExportLine{Grant: &g}, nil })
}

// events writes the events of the turns of a part, row by row, because there may be many. Of a split turn it writes
// only a turn_completed.
func (e *exporter) events(p part) error {
	err := e.Each(func(rows Rows) error {
		var ev turn.Event
		if err := scanEvent(rows.Scan, &ev, &ev.Turn); err != nil {
			return err
		}
		return e.out.Write(ExportLine{Event: &ev})
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
	return e.out.Write(ExportLine{Event: &turn.Event{Turn: r.ID, Kind: turn.EventTurnCompleted, At: r.EndedAt, Data: data}})
}

// compactions writes the compactions of a part of the transcript.
func (e *exporter) compactions(p part) error {
	names, err := column[string](e.querier, `SELECT name FROM compactions WHERE session = ? AND at_seq <= ?
		ORDER BY at_seq, id`, p.Session, p.High)
	return writeAll(e, names, err, func(name string) (l ExportLine, err error) {
		x := &ExportCompaction{}
		if x.Compaction, err = e.NamedCompaction(name); x.Turn == "" {
			_, x.Request, _ = strings.Cut(name, "/") // the name is "session row/request"
		}
		return ExportLine{Compaction: x}, err
	})
}
