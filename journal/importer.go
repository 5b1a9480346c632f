package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// maxImportBytes bounds an import, which is first put into a file beside the journal.
const maxImportBytes = 8 << 30

// errThere ends an import of what is there already; its transaction is taken back.
var errThere = errors.New("the session is there already")

// Import implements Store. It is one transaction: an import that is refused leaves nothing.
func (s *DB) Import(ctx context.Context, r io.Reader) (out Imported, err error) {
	const doing = "importing a session"
	f, err := s.spool(ctx, r)
	if err != nil {
		return out, fmt.Errorf("%s: %w", doing, err)
	}
	defer f.Close()
	err = s.write(ctx, doing, func(t *tx) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil { // it may not be the first run
			return err
		}
		im := importer{tx: t, at: time.Now(), turns: map[string]int64{}, shared: map[string]bool{}, chunked: map[string]bool{}}
		for l, err := range ReadExport(f, t.getBlob) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if err := im.line(l); err != nil {
				return fmt.Errorf("line %d: %w", l.Number, err)
			}
		}
		out, err = im.done()
		if err == nil && im.there {
			return errThere
		}
		return err
	})
	if errors.Is(err, errThere) {
		return out, nil
	}
	return out, err
}

// spool copies r into a file without a name, so that a slow reader does not hold the journal's write lock.
func (s *DB) spool(ctx context.Context, r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(s.db.TempDir(), ".import-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(ctxReader{ctx, r}, maxImportBytes+1))
		if n > maxImportBytes {
			err = fmt.Errorf("it has more than %d bytes", int64(maxImportBytes))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

type importer struct {
	*tx
	at      time.Time
	header  ExportHeader
	rules   []turn.SessionRule // which are told, and not written
	there   bool               // the journal has the session: lines are checked and not written
	session int64
	turns   map[string]int64
	forkSeq int64           // up to which the journal has the session's past; 0 where it is imported whole
	shared  map[string]bool // turns of that past, which are not written
	chunked map[string]bool // turns that have chunks
}

func (im *importer) line(l Line) error {
	switch {
	case l.Header != nil:
		return im.open(*l.Header)
	case l.Blob != nil: // also where the session is there: the check of the hash chain reads them
		_, err := im.putBlob(l.Blob.MediaType, l.Blob.Bytes)
		return err
	case im.there || im.skips(l):
		return nil
	case l.Turn != nil:
		return im.turn(*l.Turn)
	case l.Message != nil:
		return im.message(*l.Message)
	case l.Inference != nil:
		return im.inference(*l.Inference)
	case l.Call != nil:
		return im.call(*l.Call)
	case l.Late != nil:
		return im.late(*l.Late)
	case l.Wait != nil:
		return im.request(*l.Wait)
	case l.Rule != nil:
		im.rules = append(im.rules, *l.Rule)
	case l.Chunk != nil:
		return im.chunk(*l.Chunk)
	}
	return nil
}

// open inserts the session, or finds that it is there and as long as the export at least.
func (im *importer) open(h ExportHeader) (err error) {
	im.header = h
	if err := checkTenant(h.Tenant); err != nil {
		return err
	}
	if err := im.lockSession(h.Session.ID); err != nil {
		return err
	}
	var tenant string
	err = im.row(`SELECT id, tenant FROM sessions WHERE session_id = ?`, h.Session.ID).Scan(&im.session, &tenant)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return im.insert(h)
	case err == nil && tenant != h.Tenant:
		return fmt.Errorf("session %q: %w", h.Session.ID, ErrTaken)
	case err != nil:
		return err
	}
	p, err := im.point(im.session, h.Session.Head.Seq)
	if ignoreNoRows(err) != nil {
		return err
	}
	if p.hash != h.Session.Head.Hash {
		return fmt.Errorf("the journal has session %q with another transcript: import it into another journal: %w", h.Session.ID, ErrConflict)
	}
	im.there = true
	return nil
}

func (im *importer) insert(h ExportHeader) error {
	s := h.Session
	parent, err := im.past(h)
	if err != nil {
		return err
	}
	if parent != 0 {
		if err := im.checkDepth(parent); err != nil {
			return err
		}
		im.forkSeq = s.ForkSeq
	}
	err = im.row(`INSERT INTO sessions (session_id, tenant, agent, parent, fork_seq, head_seq, head_hash, turns, first_text, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, s.ID, h.Tenant, s.Agent, numberOrNull(parent), numberOrNull(im.forkSeq),
		s.Head.Seq, s.Head.Hash, s.Turns, Preview(s.FirstText, firstTextBytes), nanos(notAfter(s.CreatedAt, im.at)), nanos(notAfter(s.UpdatedAt, im.at))).Scan(&im.session)
	if err != nil {
		return err
	}
	im.changed[Topic{Session: s.ID}] = true
	return im.insertMark(im.session, ImportMark(im.at))
}

// notAfter returns the earlier of t and now: an export may say any time.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// done ends the turn that was running when the session was exported, with its open calls, waits and continuations, and
// returns what was imported.
func (im *importer) done() (out Imported, err error) {
	out.Known = im.there
	if !im.there {
		if out.Withheld, err = im.withheld(); err != nil {
			return out, err
		}
		sc := scope{session: im.session, sessionID: im.header.Session.ID, head: im.header.Session.Head}
		if _, err := im.closeUnfinished(&sc, ImportedMessage, im.at); err != nil {
			return out, err
		}
		if err := im.countTurns(); err != nil {
			return out, err
		}
	}
	if out.Session, err = im.tx.session(im.header.Session.ID); err != nil {
		return out, err
	}
	out.Mark, err = im.marked(im.session)
	return out, err
}

func null(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func numberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// column is a stored pair from an export's fields.
func column(text, blob string) stored {
	return stored{inline: sql.NullString{String: text, Valid: blob == ""}, blob: null(blob)}
}

func jsonColumn(raw json.RawMessage) sql.NullString { return null(string(raw)) }

func (im *importer) turn(t ExportTurn) error {
	var other, tenant string
	err := im.row(`SELECT s.session_id, s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`, t.ID).Scan(&other, &tenant)
	if err == nil && tenant != im.header.Tenant {
		return fmt.Errorf("turn %s: %w", t.ID, ErrTaken)
	}
	if err == nil {
		return fmt.Errorf("turn %s is in the journal already, in session %q: %w", t.ID, other, ErrConflict)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	usage, err := json.Marshal(t.Usage)
	if err != nil {
		return err
	}
	var n int64
	err = im.row(`INSERT INTO turns (turn_id, session, workflow_id, run_id, agent, message_id, message_seq, config, config_blob, state, reason, code,
		message, answer, usage, steps, calls, started_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		t.ID, im.session, t.WorkflowID, t.RunID, t.Agent, t.MessageID, t.MessageSeq, jsonColumn(t.Pins), null(t.PinsBlob),
		string(t.State), string(t.Reason), string(t.Code), t.Message, t.Answer, string(usage), t.Steps, t.Calls,
		nanos(t.StartedAt), sql.NullInt64{Int64: nanos(t.EndedAt), Valid: t.State.Terminal()}).Scan(&n)
	im.turns[t.ID] = n
	return err
}

func (im *importer) message(x ExportMessage) error {
	m := x.Message
	text := column(m.Text, x.TextBlob)
	var calls sql.NullString
	if len(x.Calls) > 0 {
		b, err := json.Marshal(x.Calls)
		if err != nil {
			return err
		}
		calls = jsonColumn(b)
	}
	media, err := mediaColumn(m.Media)
	if err != nil {
		return err
	}
	return im.exec(`INSERT INTO messages
		(session, seq, hash, message_id, role, text, text_blob, tool_calls, call_id, outcome, media, turn, step)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, im.session, x.Seq, x.Hash, null(m.ID), string(m.Role), text.inline, text.blob,
		calls, m.CallID, string(m.Outcome), media, im.turns[m.TurnID], m.Step)
}
