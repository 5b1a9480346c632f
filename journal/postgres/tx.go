package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/everturn/everturn/journal"
)

// transaction is a journal.Conn. It sends statements that have no result together with the next query or with the
// commit, so that they cost no round trip of their own.
type transaction struct {
	ctx     context.Context
	conn    *pgx.Conn
	timer   *time.Timer // ends ctx if the server stops answering; nil if there is no limit
	again   bool        // the result of Again
	pending *pgx.Batch  // the statements that are not sent yet
	size    int         // of the arguments in pending, in bytes
}

// maxPending and maxPendingBytes bound the statements that are sent together, and their arguments.
const (
	maxPending      = 100
	maxPendingBytes = 1 << 20
)

// begin returns a transaction. Its first statement, such as "begin", is sent with its first query. The transaction
// restarts the timer, if it is not nil, with each statement: see statementTimeout.
func begin(ctx context.Context, conn *pgx.Conn, timer *time.Timer, statement string) *transaction {
	t := &transaction{ctx: ctx, conn: conn, timer: timer, pending: &pgx.Batch{}}
	t.pending.Queue(statement)
	t.pending.Queue(setIdleTimeout)
	return t
}

// Exec implements journal.Conn. It sends the statement later, unless there are enough for a batch.
func (t *transaction) Exec(query string, args ...any) error {
	t.pending.Queue(numbered(query), slices.Clone(args)...) // the caller may reuse args before they are sent
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			t.size += len(a)
		case string:
			t.size += len(a)
		case driver.Valuer: // text that may be null
			if v, err := a.Value(); err == nil {
				text, _ := v.(string)
				t.size += len(text)
			}
		}
	}
	if t.pending.Len() < maxPending && t.size < maxPendingBytes {
		return nil
	}
	return t.flush()
}

// Query implements journal.Conn. It sends the pending statements with the query.
func (t *transaction) Query(query string, args ...any) (journal.Rows, error) {
	t.pending.Queue(numbered(query), args...)
	results, err := t.send(t.pending.Len() - 1)
	if err != nil {
		return nil, err
	}
	r, err := results.Query()
	if err != nil {
		_ = results.Close() // the first error is reported
		return nil, err
	}
	return rows{r, results}, nil
}

// QueryRow implements journal.Conn.
func (t *transaction) QueryRow(query string, args ...any) journal.Row {
	r, err := t.Query(query, args...)
	return row{r, err}
}

// send sends the pending statements and reads the results of the first n of them, which have no rows. The caller reads
// the result of the next one and closes the returned results.
func (t *transaction) send(n int) (pgx.BatchResults, error) {
	t.restartTimer()
	results := t.conn.SendBatch(t.ctx, t.pending)
	t.pending, t.size = &pgx.Batch{}, 0
	for range n {
		t.restartTimer()
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // the first error is reported
			return nil, err
		}
	}
	t.restartTimer()
	return results, nil
}

// restartTimer lets the next statement take statementTimeout from now on, before the timer ends the context.
func (t *transaction) restartTimer() {
	if t.timer != nil {
		t.timer.Reset(statementTimeout)
	}
}

// flush sends the pending statements and returns the first error.
func (t *transaction) flush() error {
	results, err := t.send(t.pending.Len())
	if err != nil {
		return err
	}
	return results.Close()
}

// commit sends the pending statements with a commit. It returns an error unless the server has committed: after a
// failed statement, it answers a commit with ROLLBACK and no error.
func (t *transaction) commit() error {
	t.pending.Queue("commit")
	results, err := t.send(t.pending.Len() - 1)
	if err != nil {
		return err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err == nil && tag.String() != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollback ends the transaction without a commit. It does nothing after a commit. If it fails, it closes the
// connection, which may still be in the transaction.
func (t *transaction) rollback() {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' { // 'I': idle, in no transaction
		return
	}
	if _, err := t.conn.Exec(t.ctx, "rollback"); err != nil {
		_ = t.conn.Close(t.ctx)
	}
}

// Lock implements journal.Conn. Other transactions can still insert rows that refer to a locked row.
func (t *transaction) Lock() string { return " FOR NO KEY UPDATE" }

// Again implements journal.Conn.
func (t *transaction) Again() bool { return t.again }

// rows is a journal.Rows: the result of the last query of a batch.
type rows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Columns implements journal.Rows.
func (r rows) Columns() (names []string, err error) {
	for _, f := range r.FieldDescriptions() {
		names = append(names, f.Name)
	}
	return names, nil
}

// Close implements journal.Rows.
func (r rows) Close() error {
	r.Rows.Close()
	return r.results.Close()
}

// row is a journal.Row: the first of rows, or the error of the query.
type row struct {
	rows journal.Rows
	err  error
}

// Scan implements journal.Row. It closes the result, and returns sql.ErrNoRows if that has no row.
func (r row) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	if r.rows.Next() {
		err := r.rows.Scan(into...)
		return errors.Join(err, r.rows.Close())
	}
	if err := r.rows.Close(); err != nil {
		return err
	}
	return sql.ErrNoRows
}

// queries is the cache of numbered. It is bounded, because queries are constants or, for events, a few dozen.
var queries sync.Map

// numbered returns a query with the parameters of Postgres: it replaces ? by $1, $2 and so on, and ?1 by $1.
func numbered(query string) string {
	if text, ok := queries.Load(query); ok {
		return text.(string)
	}
	var b strings.Builder
	parts := strings.Split(query, "?")
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteByte('$')
		if hasNumber := part != "" && part[0] >= '0' && part[0] <= '9'; !hasNumber {
			b.WriteString(strconv.Itoa(i + 1))
		}
		b.WriteString(part)
	}
	queries.Store(query, b.String())
	return b.String()
}

// Write implements journal.Database. It runs fn again if a race or a lost connection aborts the transaction: see retry.
func (db *database) Write(ctx context.Context, fn func(journal.Conn) error) error {
	again := false // a commit has failed, and its effects may be in the database
	return db.retry(ctx, func(ctx context.Context, conn *pgx.Conn, timer *time.Timer) error {
		t := begin(ctx, conn, timer, "begin")
		defer t.rollback()
		t.again = again
		if err := fn(t); err != nil {
			return err
		}
		err := t.commit()
		again = again || err != nil
		return err
	})
}

// Read implements journal.Database. Without once, the statements have a timeout and the transaction is retried; with
// once, fn may take as long as it needs.
func (db *database) Read(ctx context.Context, once bool, fn func(journal.Conn) error) error {
	read := func(ctx context.Context, conn *pgx.Conn, timer *time.Timer) error {
		t := begin(ctx, conn, timer, "begin isolation level repeatable read read only")
		defer t.rollback()
		if once { // fn may wait for a slow reader of its output, and a read holds no locks
			t.pending.Queue("set local idle_in_transaction_session_timeout = 0")
		}
		return fn(t)
	}
	if once {
		conn, err := db.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return raw(conn, func(conn *pgx.Conn) error { return read(ctx, conn, nil) })
	}
	return db.retry(ctx, read)
}

// raw runs fn on the pgx connection of a connection of the pool.
func raw(conn *sql.Conn, fn func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error { return fn(c.(*stdlib.Conn).Conn()) })
}

// retry runs fn on a connection of the pool. After an error that may be temporary, it runs fn again after a short
// random pause, until ctx ends or db.retryFor has passed. See runOnConn for the arguments of fn.
func (db *database) retry(ctx context.Context, fn func(context.Context, *pgx.Conn, *time.Timer) error) error {
	deadline := time.Now().Add(db.retryFor)
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		retryable, err := db.runOnConn(ctx, fn)
		if err == nil || !retryable || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("after %v: %w", db.retryFor, err)
			if !errors.As(err, new(*pgconn.PgError)) { // the error is not the server's: the connection was lost each time
				err = fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
			}
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		}
	}
}

// runOnConn runs fn on a connection of the pool. retryable reports whether a retry may help after an error. The context
// of fn ends with the caller's, or when the timer of fn fires, statementTimeout after fn has restarted it last. In the
// latter case the error wraps journal.ErrUnavailable.
func (db *database) runOnConn(caller context.Context,
	fn func(context.Context, *pgx.Conn, *time.Timer) error) (retryable bool, err error) {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer func() { // before the deferred cancel, which also ends ctx
		if err != nil && ctx.Err() != nil && caller.Err() == nil { // the timer has ended ctx
			err = fmt.Errorf("%w: the server has not answered for %v", journal.ErrUnavailable, statementTimeout)
		}
	}()
	timer := time.AfterFunc(statementTimeout, cancel)
	defer timer.Stop()
	conn, err := db.db.Conn(ctx)
	if err != nil {
		return isUnreachable(err), err
	}
	defer conn.Close()
	lost := false
	err = raw(conn, func(c *pgx.Conn) error {
		err := fn(ctx, c, timer)
		lost = c.IsClosed() // pgx closes it when the server is gone, and when a statement's context ends
		return err
	})
	return err != nil && (lost || isTransient(err)), err
}

// isUnreachable reports whether the error of opening a connection may be temporary: the network or the server fails, or
// the server refuses connections for now.
func isUnreachable(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return isTransientCode(refused.Code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect)
}

// isTransient reports whether an error of the server may be temporary.
func isTransient(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && isTransientCode(refused.Code)
}

// isTransientCode reports whether the error with this SQLSTATE may be temporary, so that a retry may help (see
// "PostgreSQL Error Codes" in the PostgreSQL documentation).
func isTransientCode(code string) bool {
	switch code {
	case "40001", "40P01", // serialization failure, deadlock
		"23505",                   // unique violation: another transaction was faster; the next run finds its row
		"53300",                   // too many connections
		"55P03",                   // lock not available
		"57P01", "57P02", "57P03", // the server shuts down, has crashed, or is starting
		"57014",  // statement_timeout, or pg_cancel_backend
		"25P03",  // idle_in_transaction_session_timeout: this process was suspended during the transaction
		readOnly: // a standby that is being promoted
		return true
	}
	return strings.HasPrefix(code, "08") // connection exceptions
}
