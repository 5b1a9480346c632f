package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Database holds the tables of a DB: journal/sqlite and journal/postgres each implement it. Both accept the SQL of this
// package, with ? and ?1 as parameters.
type Database interface {
	// Write runs fn in a transaction. The transaction is committed if fn returns nil, and rolled back otherwise. Write
	// may run fn again if the transaction was lost: see Conn.Again.
	Write(ctx context.Context, fn func(Conn) error) error
	// Read runs fn on one snapshot. With once, fn does not run again if the connection is lost.
	Read(ctx context.Context, once bool, fn func(Conn) error) error
	// Explain returns err with advice for the operator, and an error that wraps ErrNotFound for sql.ErrNoRows.
	Explain(err error) error
	// Changed returns a channel that is closed when one of the topics may have changed, or anything if there are no
	// topics.
	Changed(ctx context.Context, topics ...Topic) <-chan struct{}
	// Notify closes the channels of Changed, after a transaction of this process has changed the topics.
	Notify(topics ...Topic)
	// Renumber makes the IDs of new rows follow those of rows that were inserted with explicit IDs.
	Renumber(c Conn, table string) error
	// TempDir is the folder for large temporary files; empty means the system's folder.
	TempDir() string
	Close() error
}

// Conn is a connection in a transaction.
type Conn interface {
	Query(query string, args ...any) (Rows, error)
	QueryRow(query string, args ...any) Row
	// Exec runs a statement without a result. It may run later, at the latest with the next query or the commit, and its
	// error is theirs then.
	Exec(query string, args ...any) error
	// Lock is the clause after a SELECT that locks its rows until the transaction ends; empty if the database has one
	// writer at a time.
	Lock() string
	// Again reports whether an earlier run of this transaction was lost while it was being committed, or failed then, so
	// that its effects may be in the database.
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

// Topic is something that followers wait for: a turn's chunks, or a session's next turn.
type Topic struct {
	Turn    string
	Session string
	// Tenant is the tenant of Session. DB.Changed sets it.
	Tenant string
}

// DB is the journal: the rules about sessions, turns and calls on top of a Database. Its methods may be called
// concurrently. Each is one transaction and, except for AppendChunks and NoteCall, idempotent: a second call with the
// same arguments returns the same result and changes nothing.
//
// A DB is for one tenant, and a database is opened for the default tenant, whose name is empty. Methods that read a
// named session or turn know only those of the tenant: the error for a session of another tenant is the same
// ErrNotFound as for one that does not exist. The methods with which a worker records a turn name a turn that Begin has
// returned, of any tenant. Catalogues, workers and blobs belong to the operator, and every tenant has the same: the
// hash of a blob cannot be guessed.
type DB struct {
	db         Database
	catalogues *catalogues
	tenant     string
	sealer     *sealer // nil if the journal is not encrypted
}

// New returns the journal in db, for the default tenant.
func New(db Database) *DB { return &DB{db: db, catalogues: &catalogues{}} }

// Tenant returns the journal of one tenant, on the same database.
func (s *DB) Tenant(tenant string) *DB {
	of := *s
	of.tenant = tenant
	return &of
}

// Close ends all operations that wait on the journal and closes its database.
func (s *DB) Close() error { return s.db.Close() }

// ID returns the journal's UUID. Workers of one task queue compare it, because they must all use the same journal.
func (s *DB) ID(ctx context.Context) (id string, err error) {
	if s.sealer != nil {
		return s.sealer.id, nil
	}
	err = s.read(ctx, "reading the journal's ID", func(q querier) error {
		return q.row(`SELECT id FROM journal`).Scan(&id)
	})
	return id, err
}

// Changed returns a channel that is closed when one of the topics may have changed, or anything if there are no topics.
// It reports changes by this process at once and changes by another process after tens of milliseconds. Follow is built
// on it.
func (s *DB) Changed(ctx context.Context, topics ...Topic) <-chan struct{} {
	own := slices.Clone(topics)
	for i, t := range own {
		if t.Session != "" {
			own[i].Tenant = s.tenant
		}
	}
	return s.db.Changed(ctx, own...)
}

// tx is a transaction that writes.
type tx struct {
	querier
	changed map[Topic]bool // the topics to notify
}

// write runs fn in one transaction, which is committed if fn returns nil and rolled back otherwise. fn may run more
// than once.
func (s *DB) write(ctx context.Context, doing string, fn func(*tx) error) error {
	var t *tx
	if err := checkTenant(s.tenant); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := s.db.Write(ctx, func(c Conn) error {
		t = &tx{s.querier(c), map[Topic]bool{}}
		return fn(t)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, s.db.Explain(err))
	}
	if len(t.changed) > 0 {
		s.db.Notify(slices.Collect(maps.Keys(t.changed))...)
	}
	return nil
}

// writeTurn is write for one turn. It locks the turn's session first, so that transactions of a session run one after
// the other.
func (s *DB) writeTurn(ctx context.Context, turnID, doing string, fn func(*tx) error) error {
	return s.write(ctx, doing, func(t *tx) error {
		err := t.lock(`SELECT 1 FROM sessions WHERE id = (SELECT session FROM turns WHERE turn_id = ?)`, turnID)
		if err != nil {
			return err
		}
		return fn(t)
	})
}

// writeScope is writeTurn with the turn's scope. It refuses a turn of another session.
func (s *DB) writeScope(ctx context.Context, turnID, session, doing string, fn func(*tx, scope) error) error {
	return s.writeTurn(ctx, turnID, doing+" turn "+turnID, func(t *tx) error {
		sc, err := t.scope(turnID)
		if err == nil {
			err = sc.check(session)
		}
		if err != nil {
			return err
		}
		return fn(t, sc)
	})
}

// lockSession locks a session, if it exists.
func (t *tx) lockSession(session string) error {
	return t.lock(`SELECT 1 FROM sessions WHERE tenant = ? AND session_id = ?`, t.tenant, session)
}

// lock locks the row that a query finds until the transaction ends.
func (t *tx) lock(query string, args ...any) error {
	if t.Lock() == "" {
		return nil
	}
	return t.exec(query+t.Lock(), args...)
}

// read runs fn on one snapshot. fn may run more than once.
func (s *DB) read(ctx context.Context, doing string, fn func(querier) error) error {
	if err := checkTenant(s.tenant); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := s.db.Read(ctx, false, func(c Conn) error { return fn(s.querier(c)) })
	if err != nil {
		return fmt.Errorf("%s: %w", doing, s.db.Explain(err))
	}
	return nil
}

// get returns what fn reads from one snapshot. fn may run more than once.
func get[V any](ctx context.Context, s *DB, doing string, fn func(querier) (V, error)) (out V, err error) {
	err = s.read(ctx, doing, func(q querier) (err error) {
		out, err = fn(q)
		return err
	})
	return out, err
}

// getOfTurn is get for a turn of any tenant: see querier.scope.
func getOfTurn[V any](ctx context.Context, s *DB, turnID, doing string, fn func(querier, scope) (V, error)) (V, error) {
	return get(ctx, s, doing+" of turn "+turnID, func(q querier) (out V, err error) {
		sc, err := q.scope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// getOfNamedTurn is get for a turn of the tenant: see querier.namedScope.
func getOfNamedTurn[V any](ctx context.Context, s *DB, turnID, doing string,
	fn func(querier, scope) (V, error)) (V, error) {
	return get(ctx, s, doing+" of turn "+turnID, func(q querier) (out V, err error) {
		sc, err := q.namedScope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// getOfSession is get for a session of the tenant.
func getOfSession[V any](ctx context.Context, s *DB, session, doing string,
	fn func(q querier, session int64) (V, error)) (V, error) {
	return get(ctx, s, fmt.Sprintf("%s of %q", doing, session), func(q querier) (out V, err error) {
		n, err := q.sessionRow(session)
		if err != nil {
			return out, err
		}
		return fn(q, n)
	})
}

// querier is a connection in a transaction that reads and may also write, for one tenant.
type querier struct {
	Conn
	tenant string
	sealer *sealer
}

func (s *DB) querier(c Conn) querier { return querier{c, s.tenant, s.sealer} }

func (q querier) row(query string, args ...any) Row {
	args, err := q.sealer.arguments(args)
	switch {
	case err != nil:
		return failedRow{err}
	case q.sealer == nil:
		return q.QueryRow(query, args...)
	}
	return sealedRow{q.QueryRow(query, args...), q.sealer}
}

func (q querier) exec(query string, args ...any) error {
	args, err := q.sealer.arguments(args)
	if err != nil {
		return err
	}
	return q.Exec(query, args...)
}

// each calls scan for each row of the query's result.
func (q querier) each(scan func(Rows) error, query string, args ...any) error {
	args, err := q.sealer.arguments(args)
	if err != nil {
		return err
	}
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if q.sealer != nil {
		rows = sealedRows{rows, q.sealer}
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scanner is the Scan method of Row and Rows.
type scanner = func(into ...any) error

// collect returns what scan makes of each row of a query's result.
func collect[R any](q querier, scan func(scanner) (R, error), query string, args ...any) (list []R, err error) {
	err = q.each(func(rows Rows) error {
		r, err := scan(rows.Scan)
		list = append(list, r)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// column returns the first column of a query's result.
func column[R any](q querier, query string, args ...any) ([]R, error) {
	return collect(q, func(scan scanner) (r R, err error) {
		err = scan(&r)
		return r, err
	}, query, args...)
}
