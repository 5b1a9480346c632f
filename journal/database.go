package journal

import "context"

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
	// ReadOnly returns an error that wraps ErrReadOnly if the database was opened for reading only, because it
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
	// Tenant is the tenant of Session. DB.Changed sets it.
	Tenant string
}
