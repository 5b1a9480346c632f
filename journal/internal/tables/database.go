package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/everturn/everturn/journal/record"
)

// Database holds the tables of a journal: journal/sqlite and journal/postgres each implement it. Both accept the SQL of
// this package, with ? and ?1 as parameters.
type Database interface {
	// Write runs fn in a transaction. The transaction is committed if fn returns nil, and rolled back otherwise. Write
	// may run fn again if the transaction was lost: see Conn.Again.
	Write(ctx context.Context, fn func(Conn) error) error
	// Read runs fn on one snapshot. If once is true, fn does not run again when the connection is lost.
	Read(ctx context.Context, once bool, fn func(Conn) error) error
	// Explain returns err with advice for the operator, and an error that wraps ErrNotFound for sql.ErrNoRows.
	Explain(err error) error
	// Away reports whether an error of Write or Read means that the database is unavailable for any transaction: its
	// server or its disk fails, or another process keeps it locked.
	Away(err error) bool
	// Changed returns a channel that is closed when one of the topics may have changed, or anything if there are no
	// topics.
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}
	// Notify closes the channels of Changed, after a transaction of this process has changed the topics.
	Notify(topics ...Topic)
	// Renumber makes the table's next generated ID follow the highest existing one, after rows were inserted with their
	// IDs.
	Renumber(c Conn, table string) error
	// TempDir is the folder for large temporary files; empty means the system's folder.
	TempDir() string
	// ReadOnly returns an error that wraps record.ErrReadOnly if the database was opened for reading only, because it
	// could not be opened for writing; otherwise nil. It runs no query.
	ReadOnly() error
	Close() error
}

// Conn is a connection in a transaction.
type Conn interface {
	Query(query string, args ...any) (Rows, error)
	QueryRow(query string, args ...any) Row
	// Exec runs a statement without a result. The statement may be delayed until the next query or the commit, which
	// then returns its error.
	Exec(query string, args ...any) error
	// Lock is the clause after a SELECT that locks its rows until the transaction ends; empty if the database has one
	// writer at a time.
	Lock() string
	// Again reports whether the commit of an earlier run of this transaction returned an error. The commit may have
	// succeeded nevertheless, so the effects of that run may be in the database.
	Again() bool
}

// Rows is the result of a query, as of database/sql.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Columns() ([]string, error)
	Err() error
	Close() error
}

// Row is the first row of a result. Scan must be called once; it returns sql.ErrNoRows if there is no row.
type Row interface {
	Scan(into ...any) error
}

// Topic is something that followers wait for: a turn's events, or a session's next turn.
type Topic struct {
	Turn    string
	Session string
	// Tenant is the tenant of Session. Handle.Changed sets it.
	Tenant string
}

// Handle is a journal's database for one tenant. Methods that read a named session or turn find only those of the
// tenant.
type Handle struct {
	db     Database
	Tenant string
	sealer *sealer // nil if the journal is not encrypted
}

// New returns the handle of the default tenant.
func New(db Database) *Handle { return &Handle{db: db} }

// OfTenant returns the handle of a tenant, on the same database.
func (h *Handle) OfTenant(tenant string) *Handle {
	copied := *h
	copied.Tenant = tenant
	return &copied
}

// Close ends all operations that wait on the journal and closes its database.
func (h *Handle) Close() error { return h.db.Close() }

// ID returns the journal's UUID. If the journal is encrypted and h has no keys, it returns the sealed ID.
func (h *Handle) ID(ctx context.Context) (id string, err error) {
	if h.sealer != nil {
		return h.sealer.id, nil
	}
	err = h.Read(ctx, "reading the journal's ID", func(q Querier) error {
		return q.Row(`SELECT id FROM journal`).Scan(&id)
	})
	return id, err
}

// Changed is Database.Changed for the handle's tenant: it sets Tenant in topics with a session.
func (h *Handle) Changed(ctx context.Context, topics ...Topic) <-chan struct{} {
	own := slices.Clone(topics)
	for i, t := range own {
		if t.Session != "" {
			own[i].Tenant = h.Tenant
		}
	}
	return h.db.Changed(ctx, own...)
}

// TempDir is Database.TempDir.
func (h *Handle) TempDir() string { return h.db.TempDir() }

// ReadOnly is Database.ReadOnly.
func (h *Handle) ReadOnly() error { return h.db.ReadOnly() }

// Tx is a transaction that writes.
type Tx struct {
	Querier
	Changed map[Topic]bool // the topics to notify
}

// Write runs fn in one transaction, which is committed if fn returns nil and rolled back otherwise. fn may run more
// than once. After the commit, Write notifies the followers of the topics in Tx.Changed. doing is the context of the
// error: "<doing>: …".
func (h *Handle) Write(ctx context.Context, doing string, fn func(*Tx) error) error {
	var t *Tx
	if err := record.CheckTenant(h.Tenant); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := h.db.Write(ctx, func(c Conn) error {
		t = &Tx{h.querier(c), map[Topic]bool{}}
		return fn(t)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, h.db.Explain(err))
	}
	if len(t.Changed) > 0 {
		h.db.Notify(slices.Collect(maps.Keys(t.Changed))...)
	}
	return nil
}

// LockSession locks a session, if it exists.
func (t *Tx) LockSession(session string) error {
	return t.LockRow(`SELECT 1 FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant, session)
}

// LockRow locks the row that a query finds until the transaction ends. It does nothing if the database has one writer
// at a time.
func (t *Tx) LockRow(query string, args ...any) error {
	if t.Lock() == "" {
		return nil
	}
	return t.Exec(query+t.Lock(), args...)
}

// Read runs fn on one snapshot. fn may run more than once. doing is the context of the error: "<doing>: …".
func (h *Handle) Read(ctx context.Context, doing string, fn func(Querier) error) error {
	return h.readSnapshot(ctx, false, doing, fn)
}

// ReadOnce is Read for an fn that must not run again, because its output cannot be written twice.
func (h *Handle) ReadOnce(ctx context.Context, doing string, fn func(Querier) error) error {
	return h.readSnapshot(ctx, true, doing, fn)
}

// readSnapshot is Read or, if once is true, ReadOnce.
func (h *Handle) readSnapshot(ctx context.Context, once bool, doing string, fn func(Querier) error) error {
	err := record.CheckTenant(h.Tenant)
	if err == nil {
		err = h.db.Read(ctx, once, func(c Conn) error { return fn(h.querier(c)) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, h.db.Explain(err))
	}
	return nil
}

// Get returns what fn reads from one snapshot. fn may run more than once.
func Get[V any](ctx context.Context, h *Handle, doing string, fn func(Querier) (V, error)) (out V, err error) {
	err = h.Read(ctx, doing, func(q Querier) (err error) {
		out, err = fn(q)
		return err
	})
	return out, err
}

// GetOfTurn is Get for an fn that needs the scope of a turn of any tenant: see Querier.Scope.
func GetOfTurn[V any](ctx context.Context, h *Handle, turnID, doing string,
	fn func(Querier, Scope) (V, error)) (V, error) {
	return Get(ctx, h, doing+" of turn "+turnID, func(q Querier) (out V, err error) {
		sc, err := q.Scope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// GetOfNamedTurn is Get for an fn that needs the scope of a turn of the tenant: see Querier.NamedScope.
func GetOfNamedTurn[V any](ctx context.Context, h *Handle, turnID, doing string,
	fn func(Querier, Scope) (V, error)) (V, error) {
	return Get(ctx, h, doing+" of turn "+turnID, func(q Querier) (out V, err error) {
		sc, err := q.NamedScope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// GetOfSession is Get for an fn that needs the row of a session of the tenant.
func GetOfSession[V any](ctx context.Context, h *Handle, session, doing string,
	fn func(q Querier, session int64) (V, error)) (V, error) {
	return Get(ctx, h, fmt.Sprintf("%s of %q", doing, session), func(q Querier) (out V, err error) {
		n, err := q.SessionRow(session)
		if err != nil {
			return out, err
		}
		return fn(q, n)
	})
}
