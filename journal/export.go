package journal

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Export writes a session as JSON lines: see ExportLine for the format. It writes one snapshot and does not block
// writers.
func (db *DB) Export(ctx context.Context, session string, w io.Writer) error {
	out := NewExportWriter(untilDone{ctx: ctx, Writer: w})
	return db.readOnce(ctx, fmt.Sprintf("exporting session %q", session), func(q querier) error {
		e := exporter{querier: q, out: out, blobsSeen: map[string]bool{}}
		if err := e.writeHeader(session); err != nil {
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

// exporter reads a session and writes it to out.
type exporter struct {
	querier
	out       *ExportWriter
	parts     []part          // the oldest first
	created   time.Time       // when the session was created
	head      turn.Head       // of the messages written so far
	blobsSeen map[string]bool // the hashes of the blobs written so far
}

// part is a segment of the transcript, with the turns that begin in it and their ledgers. A session that is no fork has
// one part. The parts of a fork are its shared past, one for each session that holds a segment of it, and its own
// messages. Of the shared past, an export has only what was recorded up to the fork point.
type part struct {
	segment
	own       bool  // the session's own messages, not shared ones
	splitTurn int64 // the row of the turn that continues after the part's end; 0 if none does
}

// writeHeader writes the header of the session with this ID, and sets the fields of e for the lines that follow.
func (e *exporter) writeHeader(session string) error {
	h := ExportHeader{Format: ExportFormat, Version: ExportVersion, Tenant: e.Tenant}
	n, err := e.SessionRow(session)
	if err != nil {
		return err
	}
	if h.Session, err = e.Session(session); err != nil {
		return err
	}
	e.created = h.Session.CreatedAt
	// These fields would repeat the lines that follow and h.Tenant.
	h.Session.LastTurn, h.Session.PendingRequests, h.Session.Tenant = TurnRecord{}, 0, ""
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
	if h.Tree, err = e.exportTree(session); err != nil {
		return err
	}
	if err := e.findParts(n); err != nil {
		return err
	}
	return e.out.Write(ExportLine{Header: &h})
}

// findParts sets e.parts of the session with this row. The turn at the end of a shared part is split if it had not
// ended or a later message of its session belongs to it: then the fork has only the turn's beginning.
func (e *exporter) findParts(session int64) error {
	list, err := e.Segments(session, 1, allMessages)
	if err != nil {
		return err
	}
	for _, s := range list {
		p := part{segment: s, own: s.Session == session}
		if !p.own {
			err := e.Row(`SELECT t.id FROM turns t WHERE t.id = (SELECT max(id) FROM turns WHERE session = ?1
				AND message_seq <= ?2) AND (t.ended_at IS NULL
				OR EXISTS (SELECT 1 FROM messages m WHERE m.session = ?1 AND m.seq = ?2 + 1 AND m.turn = t.id))`, s.Session,
				s.High).Scan(&p.splitTurn)
			if ignoreNoRows(err) != nil {
				return err
			}
		}
		e.parts = append(e.parts, p)
	}
	return nil
}

// SQL conditions for the rows of a part: see part.args for the parameters ?1 to ?4. A shared part has the turns that
// began in it, but of their calls and requests only those of steps whose answer is in the part, and no open requests.
const (
	partTurns      = `(SELECT id FROM turns WHERE session = ?1 AND message_seq > ?2 AND message_seq <= ?3)`
	partInferences = `inferences.turn IN ` + partTurns + ` AND inferences.base_seq <= ?3 AND inferences.head_seq <= ?3`
	partCalls      = `calls.turn IN ` + partTurns + ` AND (?4 OR EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = calls.turn AND i.step = calls.step AND i.head_seq BETWEEN 1 AND ?3))`
	partRequests = `w.turn IN ` + partTurns + ` AND (?4 OR w.status <> '' AND EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = w.turn AND i.step = w.step AND i.head_seq BETWEEN 1 AND ?3))`
)

// args returns the parameters of the conditions: the row of the session, the bounds of the messages (?2 < seq <= ?3),
// and whether the part is the session's own. partTurns and partInferences need only the first three.
func (p part) args() []any { return []any{p.Session, p.Low, p.High, p.own} }

// writeAll writes the line of each row of a list. err is the error with which the list was read: writeAll then writes
// nothing and returns it.
func writeAll[R any](e *exporter, list []R, err error, line func(R) (ExportLine, error)) error {
	for _, r := range list {
		var l ExportLine
		if err == nil {
			l, err = line(r)
		}
		if err == nil {
			err = e.out.Write(l)
		}
	}
	return err
}

// writeBlobs writes the blobs that a line names, unless they were written before. full is a hash, or empty.
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
			err = e.out.Write(ExportLine{Blob: &b})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turns writes the turns that begin in a part, with their configs.
func (e *exporter) turns(p part) error {
	type row struct {
		record TurnRecord
		config stored
	}
	list, err := collect(e.querier, func(scan scanner) (r row, err error) {
		var turnRow int64
		if r.record, err = scanTurn(scan, &r.config.Inline, &r.config.Blob, &turnRow); turnRow == p.splitTurn {
			r.record = e.forkedTurn(r.record)
		}
		return r, err
	}, `SELECT `+turnColumns+`, t.config, t.config_blob, t.id FROM turns t JOIN sessions s ON s.id = t.session
		WHERE t.id IN `+partTurns+` ORDER BY t.id`, p.args()[:3]...)
	return writeAll(e, list, err, func(r row) (l ExportLine, err error) {
		x := ExportTurn{TurnRecord: r.record}
		x.Session = ""
		x.Config, err = e.GetJSON(r.config)
		return ExportLine{Turn: &x}, err
	})
}

// forkedTurn returns the record to export for a turn that a fork has only the beginning of: as if the turn had ended
// without an answer when the fork was created.
func (e *exporter) forkedTurn(r TurnRecord) TurnRecord {
	ended := e.created
	if ended.IsZero() {
		ended = time.Unix(0, 1).UTC() // a zero time would mean that the turn runs
	}
	return TurnRecord{
		ID: r.ID, WorkflowID: r.WorkflowID, RunID: r.RunID, Agent: r.Agent, MessageID: r.MessageID, MessageSeq: r.MessageSeq,
		State: turn.StateClosed, Reason: turn.FinishTerminated, Message: ForkedMessage, StartedAt: r.StartedAt,
		EndedAt: ended,
	}
}

// exportedMessages is the number of messages that an export holds in memory.
const exportedMessages = 100

// messages writes the messages of a part and the blobs of their media.
func (e *exporter) messages(p part) error {
	for from := p.Low + 1; ; from += exportedMessages {
		list, err := e.querier.Messages(p.Session, from, min(p.High, from+exportedMessages-1))
		err = writeAll(e, list, err, func(m turn.Message) (ExportLine, error) {
			e.head = Next(e.head, m)
			x := ExportMessage{Seq: e.head.Seq, Hash: e.head.Hash, Message: m}
			return ExportLine{Message: &x}, e.writeBlobs("", m.Media)
		})
		if err != nil || len(list) < exportedMessages {
			return err
		}
	}
}
