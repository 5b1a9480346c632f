package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Export implements Store. It writes one snapshot and does not block writers.
func (s *DB) Export(ctx context.Context, session string, w io.Writer) error {
	doing := fmt.Sprintf("exporting session %q", session)
	out := NewExporter(untilDone{ctx: ctx, Writer: w})
	err := s.db.Read(ctx, true, func(c Conn) error { // once: output cannot be written twice
		e := exporter{querier: querier{c, s.tenant}, out: out, blobsSeen: map[string]bool{}}
		if err := e.open(session); err != nil {
			return err
		}
		for _, write := range []func(part) error{
			e.blobs, e.turns, e.messages, e.inferences, e.calls, e.lateResults, e.requests, e.grants, e.chunks,
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
		return fmt.Errorf("%s: %w", doing, s.db.Explain(err))
	}
	return nil
}

type exporter struct {
	querier
	out       *Exporter
	parts     []part
	created   time.Time // of the session
	blobsSeen map[string]bool
}

// part is a segment of the transcript with the turns that begin in it and their ledgers. The last part of a fork is its
// own. The other parts are its shared past, and are exported as they were at their end.
type part struct {
	segment
	own       bool
	splitTurn int64 // the turn that continues after the part's end; 0 if none does
}

// open writes the header and finds the parts.
func (e *exporter) open(session string) error {
	h := ExportHeader{Format: ExportFormat, Version: ExportVersion, Tenant: e.tenant}
	if err := checkTenant(e.tenant); err != nil {
		return err
	}
	n, err := e.sessionRow(session)
	if err != nil {
		return err
	}
	if h.Session, err = e.session(session); err != nil {
		return err
	}
	e.created = h.Session.CreatedAt
	h.Session.LastTurn, h.Session.PendingRequests, h.Session.Tenant = TurnRecord{}, 0, ""
	if h.Session.Parent != "" {
		p, err := e.point(n, h.Session.ForkSeq)
		if err != nil {
			return err
		}
		h.ForkHash, h.ForkTurn = p.hash, p.turn
	}
	if h.TaintSource, err = e.taintSource(n); err != nil {
		return err
	}
	if err := e.split(n); err != nil {
		return err
	}
	return e.out.Write(Line{Header: &h})
}

func (e *exporter) split(session int64) error {
	list, err := e.segments(session, 1, allMessages)
	if err != nil {
		return err
	}
	for _, s := range list {
		p := part{segment: s, own: s.session == session}
		if !p.own {
			err := e.row(`SELECT t.id FROM turns t WHERE t.id = (SELECT max(id) FROM turns WHERE session = ?1
				AND message_seq <= ?2) AND (t.ended_at IS NULL
				OR EXISTS (SELECT 1 FROM messages m WHERE m.session = ?1 AND m.seq = ?2 + 1 AND m.turn = t.id))`, s.session, s.high).Scan(&p.splitTurn)
			if ignoreNoRows(err) != nil {
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

func (p part) args() []any { return []any{p.session, p.low, p.high, p.own} }

// referenced selects the hashes of a part's blobs, except for those in JSON columns: see referencedJSON.
const referenced = `
	SELECT config_blob AS hash FROM turns WHERE id IN ` + partTurns + `
	UNION SELECT text_blob FROM messages WHERE session = ?1 AND seq > ?2 AND seq <= ?3
	UNION SELECT completion_blob FROM inferences i WHERE ` + partInferences + `
	UNION SELECT raw_blob FROM inferences i WHERE ` + partInferences + `
	UNION SELECT arguments_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT text_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT full_blob FROM calls c WHERE ` + partCalls + `
	UNION SELECT l.text_blob FROM late_results l JOIN calls c ON c.id = l.call WHERE ` + partCalls + `
	UNION SELECT l.full_blob FROM late_results l JOIN calls c ON c.id = l.call WHERE ` + partCalls + `
	UNION SELECT arguments_blob FROM requests w WHERE ` + partRequests

// referencedJSON selects the JSON columns of a part that name blobs: stored calls and media.
const referencedJSON = `
	SELECT tool_calls FROM messages WHERE session = ?1 AND seq > ?2 AND seq <= ?3 AND tool_calls IS NOT NULL
	UNION ALL SELECT media FROM messages WHERE session = ?1 AND seq > ?2 AND seq <= ?3 AND media IS NOT NULL
	UNION ALL SELECT media FROM calls c WHERE c.media IS NOT NULL AND ` + partCalls + `
	UNION ALL SELECT l.media FROM late_results l JOIN calls c ON c.id = l.call WHERE l.media IS NOT NULL AND ` + partCalls

func (e *exporter) blobs(p part) error {
	hashes, err := e.hashes(p)
	for _, hash := range slices.Sorted(maps.Keys(hashes)) {
		if err == nil && !e.blobsSeen[hash] {
			e.blobsSeen[hash] = true
			err = e.writeBlob(hash)
		}
	}
	return err
}

func (e *exporter) hashes(p part) (map[string]bool, error) {
	hashes := map[string]bool{}
	err := e.each(func(rows Rows) error {
		var hash sql.NullString
		err := rows.Scan(&hash)
		if hash.Valid {
			hashes[hash.String] = true
		}
		return err
	}, referenced, p.args()...)
	if err != nil {
		return nil, err
	}
	return hashes, e.each(func(rows Rows) error {
		var column []byte
		var named []struct {
			ArgumentsBlob string `json:"arguments_blob"`
			Hash          string `json:"hash"`
		}
		err := rows.Scan(&column)
		if err == nil {
			err = json.Unmarshal(column, &named)
		}
		for _, n := range named {
			for _, hash := range []string{n.ArgumentsBlob, n.Hash} {
				if hash != "" {
					hashes[hash] = true
				}
			}
		}
		return err
	}, referencedJSON, p.args()...)
}

func (e *exporter) writeBlob(hash string) error {
	b := ExportBlob{Hash: hash}
	err := e.row(`SELECT media_type FROM blobs WHERE hash = ?`, hash).Scan(&b.MediaType)
	if err == nil {
		b.Bytes, err = e.getBlob(hash)
	}
	if err != nil {
		return err
	}
	return e.out.Write(Line{Blob: &b})
}

func (e *exporter) turns(p part) error {
	return e.each(func(rows Rows) (err error) {
		var t ExportTurn
		var pins stored
		var n int64
		if t.TurnRecord, err = scanTurn(rows.Scan, &pins.inline, &pins.blob, &n); err != nil {
			return err
		}
		t.Session = ""
		if n == p.splitTurn {
			t.TurnRecord = e.forkedTurn(t.TurnRecord)
		}
		t.Config, t.ConfigBlob = rawOf(pins), pins.blob.String
		return e.out.Write(Line{Turn: &t})
	}, `SELECT `+turnColumns+
		`, t.config, t.config_blob, t.id FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id IN `+partTurns+
		` ORDER BY t.id`,
		p.args()[:3]...)
}

// forkedTurn returns the record of a turn of which a fork has only the beginning: the turn ended at the fork, without
// an answer.
func (e *exporter) forkedTurn(r TurnRecord) TurnRecord {
	ended := e.created
	if ended.IsZero() {
		ended = time.Unix(0, 1).UTC() // it must have an end
	}
	return TurnRecord{
		ID: r.ID, WorkflowID: r.WorkflowID, RunID: r.RunID, Agent: r.Agent, MessageID: r.MessageID, MessageSeq: r.MessageSeq,
		State: turn.StateClosed, Reason: turn.FinishTerminated, Message: ForkedMessage, StartedAt: r.StartedAt,
		EndedAt: ended,
	}
}

func rawOf(s stored) json.RawMessage {
	if !s.inline.Valid || s.inline.String == "" {
		return nil
	}
	return json.RawMessage(s.inline.String)
}

func (e *exporter) messages(p part) error {
	return e.each(func(rows Rows) error {
		var x ExportMessage
		var text stored
		var calls, media sql.NullString
		m := &x.Message
		err := rows.Scan(&x.Seq, &x.Hash, &m.ID, &m.Role, &text.inline, &text.blob, &calls, &m.CallID, &m.Outcome, &media,
			&m.TurnID, &m.Step)
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
		return e.out.Write(Line{Message: &x})
	}, `SELECT m.seq, m.hash, coalesce(m.message_id, ''), m.role, m.text, m.text_blob, m.tool_calls, m.call_id, m.outcome, m.media, t.turn_id, m.step
		FROM messages m JOIN turns t ON t.id = m.turn WHERE m.session = ? AND m.seq > ? AND m.seq <= ? ORDER BY m.seq`, p.args()[:3]...)
}
