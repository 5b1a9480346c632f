package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Export implements journal.Store. What it writes is one moment's state; writers go on meanwhile.
func (s *Store) Export(ctx context.Context, session string, w io.Writer) error {
	doing := fmt.Sprintf("exporting session %q", session)
	out := journal.NewExporter(ctxWriter{ctx, w})
	err := s.once(ctx, func(q querier) error { // not read: what is written cannot be written again
		e := exporter{querier: q, out: out, blobsSeen: map[string]bool{}}
		if err := e.open(session); err != nil {
			return err
		}
		for _, write := range []func(part) error{
			e.blobs, e.turns, e.messages, e.inferences, e.calls, e.late, e.waits, e.rules, e.chunks,
		} {
			for _, p := range e.parts {
				if err := write(p); err != nil {
					return err
				}
			}
		}
		return out.Close()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, explain(err))
	}
	return nil
}

// ctxWriter ends a long export with its context.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w ctxWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}

type exporter struct {
	querier
	out       *journal.Exporter
	parts     []part
	created   time.Time // of the session
	blobsSeen map[string]bool
}

// part is a segment of the transcript with the turns that begin in it and their ledgers. A fork's last one is its own;
// the others are its shared past, of which nothing is said that came after their end.
type part struct {
	segment
	own bool
	cut int64 // the turn that goes on after the part's end; 0 where none does
}

// open writes the header and finds the parts.
func (e *exporter) open(session string) error {
	h := journal.ExportHeader{Format: journal.ExportFormat, Version: 1}
	var n int64
	err := e.row(`SELECT n, tenant FROM sessions WHERE id = ?`, session).Scan(&n, &h.Tenant)
	if err != nil {
		return err
	}
	if h.Session, err = e.session(session); err != nil {
		return err
	}
	e.created = h.Session.CreatedAt
	h.Session.LastTurn, h.Session.Waiting, h.Session.Tenant = journal.TurnRecord{}, 0, ""
	if h.Session.Parent != "" {
		p, err := e.point(n, h.Session.ForkSeq)
		if err != nil {
			return err
		}
		h.ForkHash, h.ForkTurn = p.hash, p.turn
	}
	if h.Mark, err = e.marked(n); err != nil {
		return err
	}
	if err := e.split(n); err != nil {
		return err
	}
	if h.Version, err = e.version(n); err != nil {
		return err
	}
	return e.out.Write(journal.Line{Header: &h})
}

// secondVersion is 2 where session ?1 has what version 1 of the format cannot say, else 1.
const secondVersion = `SELECT 1 + (
	EXISTS (SELECT 1 FROM sessions WHERE n = ?1 AND parent IS NOT NULL)
	OR EXISTS (SELECT 1 FROM rules WHERE session = ?1)
	OR EXISTS (SELECT 1 FROM turns t WHERE t.session = ?1 AND (t.pruned = 1 OR EXISTS (SELECT 1 FROM waits w WHERE w.turn = t.n))))`

// thirdVersion is whether a part has what version 2 of the format cannot say.
const thirdVersion = `SELECT EXISTS (SELECT 1 FROM messages WHERE session = ?1 AND seq > ?2 AND seq <= ?3 AND media IS NOT NULL)
	OR EXISTS (SELECT 1 FROM calls c WHERE ` + partCalls + ` AND (c.media IS NOT NULL OR c.code != '' OR c.suspended_attempt > 0 OR EXISTS
		(SELECT 1 FROM late_results l WHERE l.call = c.n AND (l.media IS NOT NULL OR ?4 AND l.due IS NOT NULL))))
	OR EXISTS (SELECT 1 FROM waits w WHERE ` + partWaits + ` AND (w.widest != '' OR w.inquiry IS NOT NULL OR w.inquiry_blob IS NOT NULL))`

// version is the lowest that can say what session n and its past have.
func (e *exporter) version(n int64) (version int, err error) {
	if err := e.row(secondVersion, n).Scan(&version); err != nil {
		return 0, err
	}
	m, err := e.marked(n)
	if m != nil || err != nil {
		return 3, err
	}
	for _, p := range e.parts {
		var third bool
		if err := e.row(thirdVersion, p.args()...).Scan(&third); third || err != nil {
			return 3, err
		}
	}
	return version, nil
}

func (e *exporter) split(session int64) error {
	list, err := e.segments(session, 1, allMessages)
	if err != nil {
		return err
	}
	for _, s := range list {
		p := part{segment: s, own: s.session == session}
		if !p.own {
			err := e.row(`SELECT t.n FROM turns t WHERE t.n = (SELECT max(n) FROM turns WHERE session = ?1 AND message_seq <= ?2) AND (t.ended_at IS NULL
				OR EXISTS (SELECT 1 FROM messages m WHERE m.session = ?1 AND m.seq = ?2 + 1 AND m.turn = t.n))`, s.session, s.high).Scan(&p.cut)
			if ignoreNoRows(err) != nil {
				return err
			}
		}
		e.parts = append(e.parts, p)
	}
	return nil
}

// What belongs to a part of session ?1 with the messages ?2 < seq <= ?3; ?4 says that it is the session's own.
const (
	partTurns      = `(SELECT n FROM turns WHERE session = ?1 AND message_seq > ?2 AND message_seq <= ?3)`
	partInferences = `i.turn IN ` + partTurns + ` AND i.base_seq <= ?3 AND i.head_seq <= ?3`
	partCalls      = `c.turn IN ` + partTurns + ` AND (?4 OR EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = c.turn AND i.step = c.step AND i.head_seq BETWEEN 1 AND ?3))`
	partWaits = `w.turn IN ` + partTurns + ` AND (?4 OR w.verdict <> '' AND EXISTS
		(SELECT 1 FROM inferences i WHERE i.turn = w.turn AND i.step = w.step AND i.head_seq BETWEEN 1 AND ?3))`
)

func (p part) args() []any { return []any{p.session, p.low, p.high, p.own} }

// referenced are the hashes of a part's blobs.
const referenced = `
	SELECT pins_blob AS hash FROM turns WHERE n IN ` + partTurns + `
	UNION SELECT text_blob FROM messages WHERE session = ?1 AND seq > ?2 AND seq <= ?3
	UNION SELECT call.value ->> 'arguments_blob' FROM messages m, json_each(m.tool_calls) call WHERE m.session = ?1 AND m.seq > ?2 AND m.seq <= ?3
	UNION SELECT answer_blob FROM inferences i WHERE ` + partInferences + `
	UNION SELECT raw_blob FROM inferences i WHERE ` + partInferences + `
	UNION SELECT arguments_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT text_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT full_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT l.text_blob FROM late_results l JOIN calls c ON c.n = l.call WHERE ` + partCalls + `
	UNION SELECT l.full_blob FROM late_results l JOIN calls c ON c.n = l.call WHERE ` + partCalls + `
	UNION SELECT medium.value ->> 'hash' FROM messages m, json_each(m.media) medium WHERE m.session = ?1 AND m.seq > ?2 AND m.seq <= ?3
	UNION SELECT medium.value ->> 'hash' FROM calls c, json_each(c.media) medium WHERE ` + partCalls + `
	UNION SELECT medium.value ->> 'hash' FROM late_results l JOIN calls c ON c.n = l.call, json_each(l.media) medium WHERE ` + partCalls + `
	UNION SELECT arguments_blob FROM waits w WHERE ` + partWaits

func (e *exporter) blobs(p part) error {
	return e.each(func(rows *sql.Rows) error {
		var b journal.ExportBlob
		var encoding string
		var kept []byte
		if err := rows.Scan(&b.Hash, &b.MediaType, &encoding, &kept); err != nil {
			return err
		}
		if e.blobsSeen[b.Hash] {
			return nil
		}
		e.blobsSeen[b.Hash] = true
		var err error
		if b.Bytes, err = decode(encoding, kept); err != nil {
			return err
		}
		return e.out.Write(journal.Line{Blob: &b})
	}, `SELECT hash, media_type, encoding, bytes FROM blobs WHERE hash IN (`+referenced+`) ORDER BY hash`, p.args()...)
}

func (e *exporter) turns(p part) error {
	return e.each(func(rows *sql.Rows) (err error) {
		var t journal.ExportTurn
		var pins stored
		var n int64
		if t.TurnRecord, err = scanTurn(rows.Scan, &pins.inline, &pins.blob, &n); err != nil {
			return err
		}
		t.Session = ""
		if n == p.cut {
			t.TurnRecord = e.beginning(t.TurnRecord)
		}
		t.Pins, t.PinsBlob = rawOf(pins), pins.blob.String
		return e.out.Write(journal.Line{Turn: &t})
	}, `SELECT `+turnColumns+`, t.pins, t.pins_blob, t.n FROM turns t JOIN sessions s ON s.n = t.session WHERE t.n IN `+partTurns+` ORDER BY t.n`,
		p.args()[:3]...)
}

// beginning is a turn as a fork knows it that has only its beginning: over since the fork, without an answer.
func (e *exporter) beginning(r journal.TurnRecord) journal.TurnRecord {
	ended := e.created
	if ended.IsZero() {
		ended = time.Unix(0, 1).UTC() // an end there must be
	}
	return journal.TurnRecord{
		ID: r.ID, WorkflowID: r.WorkflowID, RunID: r.RunID, Agent: r.Agent, MessageID: r.MessageID, MessageSeq: r.MessageSeq,
		State: turn.StateClosed, Reason: turn.FinishTerminated, Message: journal.ForkedMessage, StartedAt: r.StartedAt, EndedAt: ended,
	}
}

func rawOf(s stored) json.RawMessage {
	if !s.inline.Valid || s.inline.String == "" {
		return nil
	}
	return json.RawMessage(s.inline.String)
}

func (e *exporter) messages(p part) error {
	return e.each(func(rows *sql.Rows) error {
		var x journal.ExportMessage
		var text stored
		var calls, media sql.NullString
		m := &x.Message
		err := rows.Scan(&x.Seq, &x.Hash, &m.ID, &m.Role, &text.inline, &text.blob, &calls, &m.CallID, &m.Outcome, &media, &m.TurnID, &m.Step)
		if err == nil {
			m.Media, err = readMedia(media)
		}
		if err != nil {
			return err
		}
		m.Text, x.TextBlob = text.inline.String, text.blob.String
		if calls.Valid {
			if err := json.Unmarshal([]byte(calls.String), &x.Calls); err != nil {
				return fmt.Errorf("reading the calls of message %d: %w", x.Seq, err)
			}
		}
		return e.out.Write(journal.Line{Message: &x})
	}, `SELECT m.seq, m.hash, coalesce(m.message_id, ''), m.role, m.text, m.text_blob, m.tool_calls, m.call_id, m.outcome, m.media, t.id, m.step
		FROM messages m JOIN turns t ON t.n = m.turn WHERE m.session = ? AND m.seq > ? AND m.seq <= ? ORDER BY m.seq`, p.args()[:3]...)
}
