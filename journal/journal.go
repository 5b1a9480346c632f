package journal

import (
	"context"
	"slices"
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
	db     Database
	tenant string
	sealer *sealer // nil if the journal is not encrypted
	cache  *catalogueCache
}

// New returns the journal in db, for the default tenant.
func New(db Database) *DB { return &DB{db: db, cache: &catalogueCache{}} }

// Tenant returns the journal of one tenant, on the same database.
func (db *DB) Tenant(tenant string) *DB {
	copied := *db
	copied.tenant = tenant
	return &copied
}

// Close ends all operations that wait on the journal and closes its database.
func (db *DB) Close() error { return db.db.Close() }

// ID returns the journal's UUID. Workers of one task queue compare it, because they must all use the same journal. If
// the journal is encrypted and db has no keys, ID returns the sealed UUID.
func (db *DB) ID(ctx context.Context) (id string, err error) {
	if db.sealer != nil {
		return db.sealer.id, nil
	}
	err = db.read(ctx, "reading the journal's ID", func(q querier) error {
		return q.Row(`SELECT id FROM journal`).Scan(&id)
	})
	return id, err
}

// ReadOnly returns an error that wraps ErrReadOnly if the journal was opened for reading only: a SQLite file that this
// process may not write, or on a read-only or full disk. Its methods that write return that error.
func (db *DB) ReadOnly() error { return db.db.ReadOnly() }

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
// is built on it. Topics with a session are those of the handle's tenant.
func (db *DB) Changed(ctx context.Context, topics ...Topic) <-chan struct{} {
	own := slices.Clone(topics)
	for i, t := range own {
		if t.Session != "" {
			own[i].Tenant = db.tenant
		}
	}
	return db.db.Changed(ctx, own...)
}

// PutBlob stores b under its SHA-256 in lower-case hex, and returns that hash.
func (db *DB) PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error) {
	err = db.write(ctx, "storing a blob", func(t *tx) (err error) {
		hash, err = t.PutBlob(CleanText(mediaType), b)
		return err
	})
	return hash, err
}

// GetBlob returns the content of the blob with this hash. ErrNotFound if there is none.
func (db *DB) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	return get(ctx, db, "reading a blob", func(q querier) ([]byte, error) { return q.GetBlob(hash) })
}
