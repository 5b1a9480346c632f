package journal

import (
	"context"
	"io"
	"time"

	"github.com/everturn/everturn/journal/catalogue"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/portable"
	"github.com/everturn/everturn/journal/record"
)

// DB is the journal: the rules about sessions, turns and calls on top of a database. Its methods may be called
// concurrently. Each is one transaction, except for PruneEvents, and most are idempotent: a second call with the same
// arguments returns the same result and changes nothing. A second call of AppendEvents, AppendStream or NoteCall
// appends again, and one of Fork returns ErrExists.
//
// A DB is for one tenant, and a database is opened for the default tenant, whose name is empty. Methods that read a
// named session or turn find only those of the tenant: the error for a session of another tenant is the same
// ErrNotFound as for one that does not exist. The methods with which a worker records a turn name a turn that Begin
// has returned, of any tenant. Catalogues, workers and blobs belong to the operator, and every tenant has the same:
// the hash of a blob cannot be guessed.
type DB struct {
	fleet.Fleet
	catalogue.Registry
	tables *tables.Handle
	cache  *catalogue.Cache
}

// New returns the journal in db, for the default tenant.
func New(db tables.Database) *DB {
	return newDB(tables.New(db), &catalogue.Cache{})
}

func newDB(h *tables.Handle, cache *catalogue.Cache) *DB {
	return &DB{Fleet: fleet.New(h), Registry: catalogue.New(h, cache), tables: h, cache: cache}
}

// Tenant returns the journal of one tenant, on the same database.
func (db *DB) Tenant(tenant string) *DB { return newDB(db.tables.OfTenant(tenant), db.cache) }

// Guarded returns the journal with a guard against outages of its database, for a process that runs many turns. While
// the database is unavailable, one write and one read at a time test whether it is back. All others fail at once with
// an AwayError, so that they do not all wait for their timeouts.
func (db *DB) Guarded() *DB { return newDB(db.tables.Guarded(), db.cache) }

// Close ends all operations that wait on the journal and closes its database.
func (db *DB) Close() error { return db.tables.Close() }

// ID returns the journal's UUID. Workers of one task queue compare it, because they must all use the same journal.
func (db *DB) ID(ctx context.Context) (string, error) { return db.tables.ID(ctx) }

// ReadOnly returns an error that wraps ErrReadOnly if the journal was opened for reading only: a SQLite file that this
// process may not write, or on a read-only or full disk. Its methods that write return that error.
func (db *DB) ReadOnly() error { return db.tables.ReadOnly() }

// CheckWrite returns an error if the journal cannot be written now. It tries a small transaction that changes the
// schema version and changes it back, because SQLite writes nothing if nothing changes.
func (db *DB) CheckWrite(ctx context.Context) error {
	return db.write(ctx, "writing to the journal", func(t *tx) error {
		if err := t.Exec(`UPDATE journal SET schema_version = schema_version + 1`); err != nil {
			return err
		}
		return t.Exec(`UPDATE journal SET schema_version = schema_version - 1`)
	})
}

// Changed returns a channel that is closed when one of the topics may have changed, or anything if there are no topics.
// It reports changes by this process at once and changes by another process after tens of milliseconds. Package follow
// is built on it.
func (db *DB) Changed(ctx context.Context, topics ...Topic) <-chan struct{} {
	return db.tables.Changed(ctx, topics...)
}

// Sealed returns the journal with its content encrypted by keys. A journal that has no content yet becomes an encrypted
// one. If keys is nil, Sealed only checks that the journal is not encrypted. ErrSealed if the journal has plain content
// and keys is not nil, or if it is encrypted and keys is nil.
func (db *DB) Sealed(ctx context.Context, keys Keys) (*DB, error) {
	h, err := db.tables.Sealed(ctx, keys)
	if err != nil {
		return nil, err
	}
	return newDB(h, db.cache), nil
}

// Encrypted reports whether the journal's content is encrypted.
func (db *DB) Encrypted(ctx context.Context) (bool, error) { return db.tables.Encrypted(ctx) }

// Export writes a session as JSON lines: see package portable for the format. It writes one snapshot and does not block
// writers.
func (db *DB) Export(ctx context.Context, session string, w io.Writer) error {
	return portable.Export(ctx, db.tables, session, w)
}

// Import reads an export, checks the whole file and then writes the session in one transaction. Importing a session
// that the journal has already changes nothing. Import takes only exports of its own tenant, and returns
// ErrOtherTenant for others. An imported session is tainted, and has no grants and no running turn: see Imported.
func (db *DB) Import(ctx context.Context, r io.Reader) (portable.Imported, error) {
	return portable.Import(ctx, db.tables, r, func(t *tables.Tx, sc *scope, at time.Time) error {
		_, err := (&tx{t}).closeUnfinished(sc, record.ImportedMessage, at)
		return err
	})
}

// Copy copies the journal from, of all tenants and with grants, open requests and running turns, into the empty
// journal to, and returns the number of sessions. It reads one snapshot and writes one transaction. No worker may use
// from afterwards, or the two journals would diverge. Each journal keeps its own ID and its own encryption. ErrExists
// if to is not empty.
func Copy(ctx context.Context, from, to *DB) (sessions int, err error) {
	return tables.Copy(ctx, from.tables, to.tables)
}

type (
	querier = tables.Querier
	scope   = tables.Scope
	call    = tables.Call
)

// tx is a transaction that writes by the rules of this package.
type tx struct{ *tables.Tx }

// write runs fn in one transaction, which is committed if fn returns nil and rolled back otherwise. fn may run more
// than once.
func (db *DB) write(ctx context.Context, doing string, fn func(*tx) error) error {
	return db.tables.Write(ctx, doing, func(t *tables.Tx) error { return fn(&tx{t}) })
}

// writeTurn is write for a transaction about one turn. It locks the turn's session first, so that transactions of a
// session run one after the other.
func (db *DB) writeTurn(ctx context.Context, turnID, doing string, fn func(*tx) error) error {
	return db.write(ctx, doing, func(t *tx) error {
		err := t.LockRow(`SELECT 1 FROM sessions WHERE id = (SELECT session FROM turns WHERE turn_id = ?)`, turnID)
		if err != nil {
			return err
		}
		return fn(t)
	})
}

// writeScope is writeTurn for an fn that needs the turn's scope. It returns an error if the turn does not exist
// (ErrNotFound) or belongs to another session than the named one.
func (db *DB) writeScope(ctx context.Context, turnID, session, doing string, fn func(*tx, scope) error) error {
	return db.writeTurn(ctx, turnID, doing+" turn "+turnID, func(t *tx) error {
		sc, err := t.Scope(turnID)
		if err == nil {
			err = sc.Check(session)
		}
		if err != nil {
			return err
		}
		return fn(t, sc)
	})
}

// PutBlob stores b under its SHA-256 in lower-case hex, and returns that hash.
func (db *DB) PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error) {
	err = db.write(ctx, "storing a blob", func(t *tx) (err error) {
		hash, err = t.PutBlob(record.CleanText(mediaType), b)
		return err
	})
	return hash, err
}

// GetBlob returns the content of the blob with this hash. ErrNotFound if there is none.
func (db *DB) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	return tables.Get(ctx, db.tables, "reading a blob", func(q querier) ([]byte, error) { return q.GetBlob(hash) })
}
