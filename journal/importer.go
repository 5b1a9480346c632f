package journal

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Import implements Store. It checks the file before it writes anything, and the session is invisible until the import
// is complete: see stagedPrefix.
func (s *DB) Import(ctx context.Context, r io.Reader) (out Imported, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("importing a session: %w", err)
		}
	}()
	f, err := s.spoolImport(ctx, r)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if err := s.dropAbandonedImports(ctx); err != nil {
		return out, err
	}
	im := importer{
		db: s, at: time.Now(), stagedPrefix: stagedPrefix + rand.Text() + ":",
		turns: map[string]int64{}, shared: map[string]bool{},
	}
	err = im.run(ctx, f)
	if (err != nil || im.exists) && im.session != 0 {
		err = errors.Join(err, s.dropStaged(context.WithoutCancel(ctx), im.session))
	}
	if err != nil {
		return out, err
	}
	return im.result(ctx)
}

type importer struct {
	*tx          // the current transaction
	db           *DB
	at           time.Time
	stagedPrefix string // prefix of the IDs of the session and its turns until the import is complete
	header       ExportHeader
	grants       []turn.Grant // which are reported as withheld and not written
	exists       bool         // the journal has the session already
	session      int64
	turns        map[string]int64
	forkSeq      int64           // the journal has the session's past up to this seq; 0 if it is imported whole
	shared       map[string]bool // turns of that past, which are not written
	dropped      []DroppedPermission
}

// Bounds of one transaction of an import; a single line can be longer.
const (
	importLines = 200
	importBytes = 1 << 20
)

func (im *importer) run(ctx context.Context, f *spooled) error {
	lines := lineReader{r: bufio.NewReaderSize(f.from(0), 64<<10)}
	first, err := lines.next()
	if err != nil {
		return err
	}
	im.header = *first.Header
	if of := im.header.Tenant; of != im.db.tenant {
		return fmt.Errorf("the export is of %s, and this is %s: %w: choose that tenant", tenantName(of),
			tenantName(im.db.tenant), ErrOtherTenant)
	}
	if err := im.write(ctx, im.open); err != nil || im.exists {
		return err
	}
	for {
		batch, err := im.batch(&lines)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		if err := im.write(ctx, func() error { return im.importLines(batch) }); err != nil {
			return err
		}
	}
	if err := im.db.read(ctx, "reading the permissions", im.collectDropped); err != nil {
		return err
	}
	return im.write(ctx, im.publish)
}

// write runs a part of the import in one transaction.
func (im *importer) write(ctx context.Context, part func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return im.db.write(ctx, "writing the session", func(t *tx) error {
		im.tx = t
		return part()
	})
}

// batch returns the next lines. It encodes their blobs, so that no transaction has to.
func (im *importer) batch(lines *lineReader) (batch []Line, err error) {
	for from := lines.offset; len(batch) < importLines && lines.offset-from < importBytes; {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return batch, nil
		}
		if err != nil {
			return nil, err
		}
		if b := l.Blob; b != nil {
			b.encoding, b.kept = encode(b.MediaType, b.Bytes)
		}
		if l.Grant != nil {
			im.grants = append(im.grants, *l.Grant)
		}
		batch = append(batch, l)
	}
	return batch, nil
}

// importLines writes a batch, unless an earlier run of this transaction, which seemed lost, has written it. Until the
// import is complete, the turns column of the session holds the number of lines written.
func (im *importer) importLines(batch []Line) error {
	var written int64
	if err := im.row(`SELECT turns FROM sessions WHERE id = ?`, im.session).Scan(&written); err != nil {
		return err
	}
	if written >= batch[0].Number {
		return nil
	}
	for _, l := range batch {
		if err := im.importLine(l); err != nil {
			return fmt.Errorf("line %d: %w", l.Number, err)
		}
	}
	return im.exec(`UPDATE sessions SET turns = ? WHERE id = ?`, batch[len(batch)-1].Number, im.session)
}

func (im *importer) importLine(l Line) error {
	switch {
	case l.Blob != nil:
		return im.exec(insertBlob, l.Blob.Hash, l.Blob.MediaType, len(l.Blob.Bytes), l.Blob.encoding, l.Blob.kept)
	case im.isShared(l):
		return nil
	case l.Turn != nil:
		return im.importTurn(*l.Turn)
	case l.Message != nil:
		return im.importMessage(*l.Message)
	case l.Inference != nil:
		return im.importInference(*l.Inference)
	case l.Call != nil:
		return im.importCall(*l.Call)
	case l.LateResult != nil:
		return im.importLateResult(*l.LateResult)
	case l.Request != nil:
		return im.importRequest(*l.Request)
	case l.Chunk != nil:
		return im.importChunk(*l.Chunk)
	}
	return nil
}

// open inserts the staged session, unless the journal has the session.
func (im *importer) open() error {
	h := im.header
	n, err := im.find()
	if im.exists = n != 0; err != nil || im.exists {
		return err
	}
	err = im.row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, stagedTenant,
		im.stagedPrefix).Scan(&im.session)
	if !errors.Is(err, sql.ErrNoRows) { // an earlier run of this transaction, which seemed lost, was committed
		return err
	}
	parent, err := im.findSharedPast(h)
	if err != nil {
		return err
	}
	im.forkSeq = 0
	if parent != 0 {
		if err := im.checkDepth(parent); err != nil {
			return err
		}
		im.forkSeq = h.Session.ForkSeq
	}
	err = im.row(`INSERT INTO sessions (session_id, tenant, agent, parent, fork_seq, head_seq, head_hash, turns, first_text, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) RETURNING id`, im.stagedPrefix, stagedTenant, h.Session.Agent, numberOrNull(parent),
		numberOrNull(im.forkSeq), h.Session.Head.Seq, h.Session.Head.Hash, Preview(h.Session.FirstText, firstTextBytes),
		nanos(im.at), nanos(im.at)).Scan(&im.session)
	if err != nil {
		return err
	}
	return im.insertTaint(im.session, ImportTaint(im.at))
}

// find returns the session with the export's ID, 0 if there is none. It returns an error unless that session begins
// with the export's transcript.
func (im *importer) find() (session int64, err error) {
	s := im.header.Session
	if err := im.lockSession(s.ID); err != nil {
		return 0, err
	}
	if session, err = im.sessionRow(s.ID); err != nil {
		return 0, ignoreNoRows(err)
	}
	p, err := im.point(session, s.Head.Seq)
	if ignoreNoRows(err) != nil {
		return 0, err
	}
	if p.hash != s.Head.Hash {
		return 0, fmt.Errorf("the journal has session %q with another transcript: import it into another journal: %w", s.ID,
			ErrConflict)
	}
	return session, nil
}

// publish gives the session and its turns their IDs, and ends the turn that was running when the session was exported,
// with its open calls, requests and continuations.
func (im *importer) publish() error {
	n, err := im.find()
	if err != nil || n == im.session { // the same: an earlier run was committed
		return err
	}
	if im.exists = n != 0; im.exists {
		return nil
	}
	s := im.header.Session
	err = im.exec(`UPDATE turns SET turn_id = substr(turn_id, ?1),
		pruned = NOT EXISTS (SELECT 1 FROM chunks c WHERE c.turn = turns.id AND c.idx = 0 AND c.kind <> ?2) WHERE session = ?3`,
		len(im.stagedPrefix)+1, string(turn.ChunkTurnCompleted), im.session)
	if err != nil {
		return err
	}
	err = im.exec(`UPDATE sessions SET session_id = ?1, tenant = ?2, turns = (SELECT count(*) FROM turns
		WHERE session = ?3), created_at = ?4,
		updated_at = ?5 WHERE id = ?3`, s.ID, im.tenant, im.session, nanos(notAfter(s.CreatedAt, im.at)), nanos(notAfter(s.UpdatedAt, im.at)))
	if err != nil {
		return err
	}
	sc := scope{session: im.session, sessionID: s.ID, head: s.Head}
	if _, err := im.closeUnfinished(&sc, ImportedMessage, im.at); err != nil {
		return err
	}
	im.changed[Topic{Session: s.ID, Tenant: im.tenant}] = true
	for id := range im.turns {
		im.changed[Topic{Turn: id}] = true
	}
	return nil
}

// result returns the result of the import.
func (im *importer) result(ctx context.Context) (out Imported, err error) {
	out = Imported{Unchanged: im.exists, DroppedPermissions: im.dropped}
	if im.exists {
		out.DroppedPermissions = nil
	}
	err = im.db.read(ctx, "reading the session", func(q querier) error {
		var err error
		if out.Session, err = q.session(im.header.Session.ID); err != nil {
			return err
		}
		n, err := q.sessionRow(im.header.Session.ID)
		if err != nil {
			return err
		}
		out.TaintSource, err = q.taintSource(n)
		return err
	})
	return out, err
}

// notAfter returns the earlier of t and now, because an export may claim any time.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

func tenantName(tenant string) string {
	if tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", tenant)
}

func null(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func numberOrNull(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// column returns a stored pair made from an export's fields.
func column(text, blob string) stored {
	return stored{inline: sql.NullString{String: text, Valid: blob == ""}, blob: null(blob)}
}

func jsonColumn(raw json.RawMessage) sql.NullString { return null(string(raw)) }

func (im *importer) importTurn(t ExportTurn) error {
	var other, tenant string
	err := im.row(`SELECT s.session_id, s.tenant FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ?`,
		t.ID).Scan(&other, &tenant)
	if err == nil && tenant != im.tenant {
		return fmt.Errorf("turn %s is in the journal already: %w", t.ID, ErrConflict)
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
		message, answer, usage, steps, calls, started_at, ended_at, pruned)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TRUE)
		RETURNING id`, // TRUE: nothing prunes it before it is published
		im.stagedPrefix+t.ID, im.session, t.WorkflowID, t.RunID, t.Agent, t.MessageID, t.MessageSeq, jsonColumn(t.Config),
		null(t.ConfigBlob),
		string(t.State), string(t.Reason), string(t.Code), t.Message, t.Answer, string(usage), t.Steps, t.Calls,
		nanos(t.StartedAt), sql.NullInt64{Int64: nanos(t.EndedAt), Valid: t.State.Terminal()}).Scan(&n)
	im.turns[t.ID] = n
	return err
}

func (im *importer) importMessage(x ExportMessage) error {
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
	return im.exec(insertMessage, im.session, x.Seq, x.Hash, null(m.ID), string(m.Role), text.inline, text.blob,
		calls, m.CallID, string(m.Outcome), media, im.turns[m.TurnID], m.Step)
}
