package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Export implements journal.Store. What it writes is one moment's state; writers go on meanwhile.
func (s *Store) Export(ctx context.Context, session string, w io.Writer) error {
	doing := fmt.Sprintf("exporting session %q", session)
	out := journal.NewExporter(ctxWriter{ctx, w})
	err := s.once(ctx, func(q querier) error { // not read: what is written cannot be written again
		e := exporter{querier: q, out: out}
		for _, part := range []func(session string) error{
			e.header, e.blobs, e.turns, e.messages, e.inferences, e.calls, e.late, e.chunks,
		} {
			if err := part(session); err != nil {
				return err
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
	out *journal.Exporter
	n   int64 // the session's row
}

func (e *exporter) header(session string) error {
	h := journal.ExportHeader{Format: journal.ExportFormat, Version: journal.ExportVersion}
	err := e.row(`SELECT n, tenant FROM sessions WHERE id = ?`, session).Scan(&e.n, &h.Tenant)
	if err != nil {
		return err
	}
	if h.Session, err = e.session(session); err != nil {
		return err
	}
	h.Session.LastTurn, h.Session.Waiting = journal.TurnRecord{}, 0
	return e.out.Write(journal.Line{Header: &h})
}

// referenced are the hashes of all blobs of session ?1.
const referenced = `
	SELECT pins_blob AS hash FROM turns WHERE session = ?1
	UNION SELECT text_blob FROM messages WHERE session = ?1
	UNION SELECT call.value ->> 'arguments_blob' FROM messages m, json_each(m.tool_calls) call WHERE m.session = ?1
	UNION SELECT answer_blob FROM inferences WHERE turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT raw_blob FROM inferences WHERE turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT arguments_blob FROM calls WHERE turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT text_blob FROM calls WHERE turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT full_blob FROM calls WHERE turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT l.text_blob FROM late_results l JOIN calls c ON c.n = l.call WHERE c.turn IN (SELECT n FROM turns WHERE session = ?1)
	UNION SELECT l.full_blob FROM late_results l JOIN calls c ON c.n = l.call WHERE c.turn IN (SELECT n FROM turns WHERE session = ?1)`

func (e *exporter) blobs(string) error {
	return e.each(func(rows *sql.Rows) error {
		var b journal.ExportBlob
		var encoding string
		var kept []byte
		if err := rows.Scan(&b.Hash, &b.MediaType, &encoding, &kept); err != nil {
			return err
		}
		var err error
		if b.Bytes, err = decode(encoding, kept); err != nil {
			return err
		}
		return e.out.Write(journal.Line{Blob: &b})
	}, `SELECT hash, media_type, encoding, bytes FROM blobs WHERE hash IN (`+referenced+`) ORDER BY hash`, e.n)
}

func (e *exporter) turns(string) error {
	return e.each(func(rows *sql.Rows) (err error) {
		var t journal.ExportTurn
		var pins stored
		if t.TurnRecord, err = scanTurn(rows.Scan, &pins.inline, &pins.blob); err != nil {
			return err
		}
		t.Session = ""
		t.Pins, t.PinsBlob = rawOf(pins), pins.blob.String
		return e.out.Write(journal.Line{Turn: &t})
	}, `SELECT `+turnColumns+`, t.pins, t.pins_blob FROM turns t JOIN sessions s ON s.n = t.session WHERE t.session = ? ORDER BY t.n`, e.n)
}

func rawOf(s stored) json.RawMessage {
	if !s.inline.Valid || s.inline.String == "" {
		return nil
	}
	return json.RawMessage(s.inline.String)
}

func (e *exporter) messages(string) error {
	return e.each(func(rows *sql.Rows) error {
		var x journal.ExportMessage
		var text stored
		var calls sql.NullString
		m := &x.Message
		err := rows.Scan(&x.Seq, &x.Hash, &m.ID, &m.Role, &text.inline, &text.blob, &calls, &m.CallID, &m.Outcome, &m.TurnID, &m.Step)
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
	}, `SELECT m.seq, m.hash, coalesce(m.message_id, ''), m.role, m.text, m.text_blob, m.tool_calls, m.call_id, m.outcome, t.id, m.step
		FROM messages m JOIN turns t ON t.n = m.turn WHERE m.session = ? ORDER BY m.seq`, e.n)
}

func (e *exporter) inferences(string) error {
	return e.each(func(rows *sql.Rows) error {
		var a attempt
		var x journal.ExportInference
		var turnID string
		if err := a.scan(rows.Scan, &turnID, &x.FailedCode, &x.FailedMessage); err != nil {
			return err
		}
		x.Inference, x.ExpectSeq, x.Emitted, x.FailedAttempt = a.inf, a.expect, a.emitted, a.failed
		x.Key.Turn = turnID
		x.Stored, x.StoredBlob, x.RawBlob = rawOf(a.answer), a.answer.blob.String, a.raw.String
		return e.out.Write(journal.Line{Inference: &x})
	}, `SELECT t.id, i.failed_code, i.failed_message, `+inferenceColumns+` FROM inferences i JOIN turns t ON t.n = i.turn
		WHERE t.session = ? ORDER BY t.n, i.step`, e.n)
}

func (e *exporter) calls(string) error {
	return e.each(func(rows *sql.Rows) error {
		var c call
		var turnID string
		if err := c.scan(rows.Scan, &turnID); err != nil {
			return err
		}
		x := journal.ExportCall{
			CallRecord: c.rec, ArgumentsBlob: c.arguments.blob.String, ArgumentsHash: c.argumentsHash, TextBlob: c.text.blob.String,
			Repeatable: c.repeatable, GrantedAttempt: c.granted, SettledAttempt: c.settledAttempt,
		}
		x.Turn, x.Call.Arguments, x.Text = turnID, c.arguments.inline.String, c.text.inline.String
		return e.out.Write(journal.Line{Call: &x})
	}, `SELECT t.id, `+callColumns+` FROM calls c JOIN turns t ON t.n = c.turn WHERE t.session = ? ORDER BY c.n`, e.n)
}

func (e *exporter) late(string) error {
	return e.each(func(rows *sql.Rows) error {
		var x journal.ExportLate
		var at int64
		err := rows.Scan(&x.Turn, &x.CallID, &x.Attempt, &x.Outcome, &x.Text, &x.TextBlob, &x.FullBlob, &x.SizeBytes, &at, &x.Digest)
		if err != nil {
			return err
		}
		x.At = instant(at)
		return e.out.Write(journal.Line{Late: &x})
	}, `SELECT t.id, c.call_id, l.attempt, l.outcome, coalesce(l.text, ''), coalesce(l.text_blob, ''), coalesce(l.full_blob, ''), l.size, l.at, l.digest
		FROM late_results l JOIN calls c ON c.n = l.call JOIN turns t ON t.n = c.turn WHERE t.session = ? ORDER BY l.n`, e.n)
}

func (e *exporter) chunks(string) error {
	return e.each(func(rows *sql.Rows) error {
		var c turn.Chunk
		if err := scanChunk(rows, &c, &c.Turn); err != nil {
			return err
		}
		return e.out.Write(journal.Line{Chunk: &c})
	}, `SELECT idx, step, attempt, kind, at, text, coalesce(data, ''), t.id FROM chunks c JOIN turns t ON t.n = c.turn
		WHERE t.session = ? ORDER BY t.n, c.idx`, e.n)
}
