package portable

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// Export writes a session as JSON lines; see Line for the format. It writes one snapshot and does not block writers.
func Export(ctx context.Context, h *tables.Handle, session string, w io.Writer) error {
	out := NewExporter(untilDone{ctx: ctx, Writer: w})
	return h.ReadOnce(ctx, fmt.Sprintf("exporting session %q", session), func(q tables.Querier) error {
		e := exporter{Querier: q, out: out, blobsSeen: map[string]bool{}}
		if err := e.open(session); err != nil {
			return err
		}
		for _, write := range []func(part) error{
			e.turns, e.messages, e.inferences, e.calls, e.lateResults, e.requests, e.grants, e.compactions, e.events,
		} {
			for _, p := range e.parts {
				if err := write(p); err != nil {
					return err
				}
			}
		}
		return out.Close()
	})
}

type exporter struct {
	tables.Querier
	out       *Exporter
	parts     []part
	created   time.Time // of the session
	head      turn.Head // of the messages so far
	blobsSeen map[string]bool
}

// part is a segment of the transcript with the turns that begin in it and their ledgers. The last part of a fork is its
// own. The other parts are its shared past, and are exported as they were at their end.
type part struct {
	tables.Segment
	own       bool
	splitTurn int64 // the turn that continues after the part's end; 0 if none does
}

// open writes the header and finds the parts.
func (e *exporter) open(session string) error {
	h := ExportHeader{Format: Format, Version: Version, Tenant: e.Tenant}
	n, err := e.SessionRow(session)
	if err != nil {
		return err
	}
	if h.Session, err = e.Session(session); err != nil {
		return err
	}
	e.created = h.Session.CreatedAt
	h.Session.LastTurn, h.Session.PendingRequests, h.Session.Tenant = record.TurnRecord{}, 0, ""
	if h.Session.Parent != "" {
		p, err := e.Point(n, h.Session.ForkSeq)
		if err != nil {
			return err
		}
		h.ForkHash, h.ForkTurn = p.Hash, p.Turn
	}
	if h.TaintSource, err = e.TaintSource(n); err != nil {
		return err
	}
	if err := e.split(n); err != nil {
		return err
	}
	return e.out.Write(Line{Header: &h})
}

func (e *exporter) split(session int64) error {
	list, err := e.Segments(session, 1, tables.AllMessages)
	if err != nil {
		return err
	}
	for _, s := range list {
		p := part{Segment: s, own: s.Session == session}
		if !p.own {
			err := e.Row(`SELECT t.id FROM turns t WHERE t.id = (SELECT max(id) FROM turns WHERE session = ?1
				AND message_seq <= ?2) AND (t.ended_at IS NULL
				OR EXISTS (SELECT 1 FROM messages m WHERE m.session = ?1 AND m.seq = ?2 + 1 AND m.turn = t.id))`, s.Session, s.High).Scan(&p.splitTurn)
			if tables.IgnoreNoRows(err) != nil {
				return err
			}
		}
		e.parts = append(e.parts, p)
	}
	return nil
}

// Content of a part: of session ?1, the messages ?2 < seq <= ?3. ?4 tells whether the part is the session's own.
const (
	partTurns      = `(SELECT id FROM turns WHERE session = ?1 AND message_seq > ?2 AND message_seq <= ?3)`
	partInferences = `i.turn IN ` + partTurns + ` AND i.base_seq <= ?3 AND i.head_seq <= ?3`
	partCalls      = `c.turn IN ` + partTurns + ` AND (?4 OR EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = c.turn AND i.step = c.step AND i.head_seq BETWEEN 1 AND ?3))`
	partRequests = `w.turn IN ` + partTurns + ` AND (?4 OR w.status <> '' AND EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = w.turn AND i.step = w.step AND i.head_seq BETWEEN 1 AND ?3))`
)

func (p part) args() []any { return []any{p.Session, p.Low, p.High, p.own} }

// writeAll writes a line for each row of a list, if the list was read without an error.
func writeAll[R any](e *exporter, list []R, err error, line func(R) (Line, error)) error {
	for _, r := range list {
		var l Line
		if err == nil {
			l, err = line(r)
		}
		if err == nil {
			err = e.out.Write(l)
		}
	}
	return err
}

// writeBlobs writes those of the artifacts of a call that have no line yet.
func (e *exporter) writeBlobs(full string, media []turn.Media) error {
	hashes := []string{full}
	for _, m := range media {
		hashes = append(hashes, m.Hash)
	}
	for _, hash := range hashes {
		if hash == "" || e.blobsSeen[hash] {
			continue
		}
		e.blobsSeen[hash] = true
		b := ExportBlob{Hash: hash}
		err := e.Row(`SELECT media_type FROM blobs WHERE hash = ?`, hash).Scan(&b.MediaType)
		if err == nil {
			b.Bytes, err = e.GetBlob(hash)
		}
		if err == nil {
			err = e.out.Write(Line{Blob: &b})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) turns(p part) error {
	type row struct {
		record record.TurnRecord
		config tables.Stored
	}
	list, err := tables.Collect(e.Querier, func(scan tables.Scanner) (r row, err error) {
		var n int64
		if r.record, err = tables.ScanTurn(scan, &r.config.Inline, &r.config.Blob, &n); n == p.splitTurn {
			r.record = e.forkedTurn(r.record)
		}
		return r, err
	}, `SELECT `+tables.TurnColumns+`, t.config, t.config_blob, t.id FROM turns t JOIN sessions s ON s.id = t.session
		WHERE t.id IN `+partTurns+` ORDER BY t.id`, p.args()[:3]...)
	return writeAll(e, list, err, func(r row) (l Line, err error) {
		x := ExportTurn{TurnRecord: r.record}
		x.Session = ""
		x.Config, err = e.GetJSON(r.config)
		return Line{Turn: &x}, err
	})
}

// forkedTurn returns the record of a turn of which a fork has only the beginning: the turn ended at the fork, without
// an answer.
func (e *exporter) forkedTurn(r record.TurnRecord) record.TurnRecord {
	ended := e.created
	if ended.IsZero() {
		ended = time.Unix(0, 1).UTC() // it must have an end
	}
	return record.TurnRecord{
		ID: r.ID, WorkflowID: r.WorkflowID, RunID: r.RunID, Agent: r.Agent, MessageID: r.MessageID, MessageSeq: r.MessageSeq,
		State: turn.StateClosed, Reason: turn.FinishTerminated, Message: record.ForkedMessage, StartedAt: r.StartedAt,
		EndedAt: ended,
	}
}

// exportedMessages is the number of messages that an export holds in memory.
const exportedMessages = 100

func (e *exporter) messages(p part) error {
	for from := p.Low + 1; ; from += exportedMessages {
		list, err := e.Querier.Messages(p.Session, from, min(p.High, from+exportedMessages-1))
		err = writeAll(e, list, err, func(m turn.Message) (Line, error) {
			e.head = record.Next(e.head, m)
			x := ExportMessage{Seq: e.head.Seq, Hash: e.head.Hash, Message: m}
			return Line{Message: &x}, e.writeBlobs("", m.Media)
		})
		if err != nil || len(list) < exportedMessages {
			return err
		}
	}
}
