package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Import reads an export, checks the whole file and then writes the session in one transaction. Importing a session
// that the journal has already changes nothing. Import takes only exports of its own tenant, and returns
// ErrOtherTenant for others. An imported session is tainted, and has no grants and no running turn: see Imported.
func (db *DB) Import(ctx context.Context, r io.Reader) (out Imported, err error) {
	f, err := db.spoolImport(ctx, r)
	if err != nil {
		return out, fmt.Errorf("importing a session: %w", err)
	}
	defer f.Close()
	at := time.Now()
	err = db.write(ctx, "importing a session", func(t *tx) error {
		if t.Again() { // an earlier run may have been committed: then the session exists, and out is its result
			if _, err := t.SessionRow(out.Session.ID); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		t.Conn = connUntilDone{t.Conn, ctx}
		im := importer{tx: t, at: at, turns: map[string]int64{}}
		imported, err := im.run(untilDone{ctx: ctx, Reader: io.NewSectionReader(f, 0, maxImportBytes)})
		if err == nil { // after an error, out keeps the result of an earlier run, which may have been committed
			out = imported
		}
		return err
	})
	if err != nil {
		return Imported{}, err
	}
	return out, nil
}

// importer writes the lines of an export in one transaction. Scope is the imported session; its Head is that of the
// messages so far, and its turn is that of the last message.
type importer struct {
	*tx
	at     time.Time    // the time of the import
	header ExportHeader // of the export
	grants []turn.Grant // of the export; they are reported as dropped and not written
	scope
	// forkSeq is the seq of the last message of a fork's past that the journal has already and the import does not
	// write; 0 if the import writes all messages.
	forkSeq int64
	turns   map[string]int64 // the rows of the export's turns, by turn ID; 0 for a turn that the import does not write
}

// run imports the lines of file. It returns early if the journal has the session already.
func (im *importer) run(file io.Reader) (out Imported, err error) {
	for l, err := range ReadExport(file) {
		switch {
		case err == nil && l.Header != nil:
			im.header = *l.Header
			if out.Unchanged, err = im.openSession(); out.Unchanged && err == nil {
				return im.result(out)
			}
		case err == nil:
			err = im.importLine(l)
		}
		if err != nil {
			return out, err
		}
	}
	// Before finish, which ends the running turn and with it the approvals that the turn waits for.
	if out.DroppedPermissions, err = im.droppedPermissions(); err != nil {
		return out, err
	}
	if err := errors.Join(im.importTree(), im.finish()); err != nil {
		return out, err
	}
	return im.result(out)
}

// result returns out with the session as the journal has it, and with its taint source.
func (im *importer) result(out Imported) (_ Imported, err error) {
	if out.Session, err = im.querier.Session(im.header.Session.ID); err != nil {
		return out, err
	}
	out.Tree = im.header.Tree
	out.TaintSource, err = im.TaintSource(im.scope.Session)
	return out, err
}

// importLine imports a line after the header. Lines of a turn that the import does not write are skipped.
func (im *importer) importLine(l ExportLine) error {
	switch {
	case l.Blob != nil:
		_, err := im.PutBlob(l.Blob.MediaType, l.Blob.Bytes)
		return err
	case l.Grant != nil:
		im.grants = append(im.grants, *l.Grant)
		return nil
	case l.Turn != nil:
		return im.importTurn(*l.Turn)
	case l.Message != nil:
		return im.importMessage(*l.Message)
	case l.Compaction != nil:
		return im.importCompaction(*l.Compaction)
	}
	turnID := "" // of the other kinds of lines, which belong to a turn
	switch {
	case l.Inference != nil:
		turnID = l.Inference.Key.Turn
	case l.Call != nil:
		turnID = l.Call.Turn
	case l.LateResult != nil:
		turnID = l.LateResult.Turn
	case l.Request != nil:
		turnID = l.Request.Turn
	case l.Event != nil:
		turnID = l.Event.Turn
	}
	turnRow := im.turns[turnID]
	switch {
	case turnRow == 0: // the end line, or a turn of the past that the journal has already
		return nil
	case l.Inference != nil:
		return im.importInference(turnRow, *l.Inference)
	case l.Call != nil:
		return im.importCall(turnRow, *l.Call)
	case l.LateResult != nil:
		return im.importLateResult(turnRow, *l.LateResult)
	case l.Request != nil:
		return im.importRequest(turnRow, *l.Request)
	}
	return im.importEvent(turnRow, *l.Event)
}

// openSession inserts the tainted session that the header names, and sets im.scope and im.forkSeq. If the journal has
// the session already, with at least the export's messages, it changes nothing and returns true. It returns an error if
// the export belongs to another tenant, or the journal's session has another transcript.
func (im *importer) openSession() (unchanged bool, err error) {
	h, s := im.header, im.header.Session
	if h.Tenant != im.querier.Tenant {
		return false, fmt.Errorf("the export is of %s, and this is %s: %w: choose that tenant", tenantName(h.Tenant),
			tenantName(im.querier.Tenant), ErrOtherTenant)
	}
	if err := im.LockSession(s.ID); err != nil {
		return false, err
	}
	if im.scope.Session, err = im.SessionRow(s.ID); err == nil {
		return true, im.checkSame()
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	parent, err := im.findSharedPast(h)
	if err == nil && parent != 0 {
		im.forkSeq, im.Head = s.ForkSeq, turn.Head{Seq: s.ForkSeq, Hash: h.ForkHash}
		err = im.CheckDepth(parent)
	}
	if err != nil {
		return false, err
	}
	err = im.Row(`INSERT INTO sessions (session_id, tenant, agent, parent, fork_seq, head_seq, head_hash, first_text,
		created_at, updated_at, caller_session, caller_turn, caller_call)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, s.ID, h.Tenant, s.Agent,
		numberOrNull(parent), numberOrNull(im.forkSeq), s.Head.Seq, s.Head.Hash,
		contentOf(preview(s.FirstText, firstTextBytes)),
		nanos(notAfter(s.CreatedAt, im.at)), nanos(notAfter(s.UpdatedAt, im.at)), s.Caller.Session, s.Caller.Turn,
		s.Caller.Call).Scan(&im.scope.Session)
	if err != nil {
		return false, err
	}
	im.SessionID = s.ID
	return false, im.InsertTaint(im.scope.Session, ImportTaint(im.at))
}

// checkSame returns an error unless the transcript of the journal's session begins with that of the export.
func (im *importer) checkSame() error {
	s := im.header.Session
	p, err := im.Point(im.scope.Session, s.Head.Seq)
	if ignoreNoRows(err) != nil {
		return err
	}
	if p.Hash != s.Head.Hash {
		return fmt.Errorf("the journal has session %q with another transcript: import it into another journal: %w", s.ID,
			ErrConflict)
	}
	return nil
}

// finish completes the rows of the session and its turns, ends the turn that was running when the session was exported,
// with its open calls and requests, and notifies followers. A turn counts as pruned if the export does not have its
// first event, or has only its turn_completed.
func (im *importer) finish() error {
	n := im.scope.Session
	err := im.Exec(`UPDATE turns SET pruned = NOT EXISTS (SELECT 1 FROM events c WHERE c.turn = turns.id AND c.idx = 0
		AND c.kind <> ?) WHERE session = ?`, string(turn.EventTurnCompleted), n)
	if err == nil {
		err = im.Exec(`UPDATE sessions SET turns = (SELECT count(*) FROM turns WHERE session = ?1) WHERE id = ?1`, n)
	}
	if err != nil {
		return err
	}
	if _, err := im.closeUnfinished(&im.scope, ImportedMessage, im.at); err != nil {
		return err
	}
	im.Changed[Topic{Session: im.SessionID, Tenant: im.querier.Tenant}] = true
	for id := range im.turns {
		im.Changed[Topic{Turn: id}] = true
	}
	return nil
}

// notAfter returns the earlier of t and now: an export may contain any time, but the session must not lie in the
// future.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// tenantName returns a tenant's name for a message.
func tenantName(tenant string) string {
	if tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", tenant)
}

// findSharedPast returns the row of a session in this journal that has the shared past of an exported fork: the
// session that was forked, or the session of the turn at the fork point. It returns 0 if neither has that past, or
// the export is not of a fork.
func (im *importer) findSharedPast(h ExportHeader) (int64, error) {
	if h.Session.Parent == "" || h.ForkHash == "" {
		return 0, nil
	}
	for _, candidate := range []struct{ query, id string }{
		{`SELECT id FROM sessions WHERE session_id = ? AND tenant = ?`, h.Session.Parent},
		{`SELECT session FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ? AND s.tenant = ?`, h.ForkTurn},
	} {
		var session int64
		err := im.Row(candidate.query, candidate.id, im.querier.Tenant).Scan(&session)
		if ignoreNoRows(err) != nil {
			return 0, err
		}
		p, err := im.Point(session, h.Session.ForkSeq) // a session of row 0 has no messages
		if ignoreNoRows(err) != nil {
			return 0, err
		}
		if p.Hash == h.ForkHash { // the hash covers all messages before, too
			return session, nil
		}
	}
	return 0, nil
}

// maxImportBytes bounds an export that is imported.
const maxImportBytes = 256 << 20

// spoolImport copies an export from r to a temporary file and checks it, so that the transaction that imports it does
// not hold locks while a slow source is read, or for a damaged export. The file has no name: closing it, which the
// caller must do, removes it.
func (db *DB) spoolImport(ctx context.Context, r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(db.db.TempDir(), ".import-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(untilDone{ctx: ctx, Reader: r}, maxImportBytes+1))
		if n > maxImportBytes {
			err = fmt.Errorf("the export exceeds %d bytes", int64(maxImportBytes))
		}
	}
	if err == nil {
		for _, err = range ReadExport(untilDone{ctx: ctx, Reader: io.NewSectionReader(f, 0, maxImportBytes)}) {
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// untilDone is a reader and writer that fails when its context ends, so that a long import or export can be cancelled.
type untilDone struct {
	ctx context.Context
	io.Reader
	io.Writer
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(p)
}

// connUntilDone is a Conn whose statements fail when its context ends, so that a long import can be cancelled. A
// Database need not watch the context while it runs a transaction.
type connUntilDone struct {
	Conn
	ctx context.Context
}

func (c connUntilDone) Exec(query string, args ...any) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.Conn.Exec(query, args...)
}

func (c connUntilDone) Query(query string, args ...any) (Rows, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	return c.Conn.Query(query, args...)
}

func (c connUntilDone) QueryRow(query string, args ...any) Row {
	if err := c.ctx.Err(); err != nil {
		return failedRow{Err: err}
	}
	return c.Conn.QueryRow(query, args...)
}
