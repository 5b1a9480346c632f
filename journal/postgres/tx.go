package postgres

import (
	"context"
	"database/sql"
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
	"github.com/everturn/everturn/journal/internal/tables"
)

// transaction is a tables.Conn. It sends statements that have no result together with the next query or with the
// commit, so that they cost no round trip of their own.
type transaction struct {
	ctx     context.Context
	conn    *pgx.Conn
	timer   *time.Timer // ends ctx if the server stops answering; nil if there is no limit
	again   bool
	pending *pgx.Batch
	size    int // bytes in pending
}

// maxPending and maxPendingBytes bound the statements that are sent together.
const (
	maxPending      = 100
	maxPendingBytes = 1 << 20
)

// begin returns a transaction that begins with its first query.
func begin(ctx context.Context, conn *pgx.Conn, timer *time.Timer, statement string) *transaction {
	t := &transaction{ctx: ctx, conn: conn, timer: timer, pending: &pgx.Batch{}}
	t.pending.Queue(statement)
	t.pending.Queue(limitIdle)
	return t
}

// Exec implements tables.Conn.
func (t *transaction) Exec(query string, args ...any) error {
	t.pending.Queue(numbered(query), slices.Clone(args)...)
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			t.size += len(a)
		case string:
			t.size += len(a)
		}
	}
	if t.pending.Len() < maxPending && t.size < maxPendingBytes {
		return nil
	}
	return t.flush()
}

// Query implements tables.Conn.
func (t *transaction) Query(query string, args ...any) (tables.Rows, error) {
	t.pending.Queue(numbered(query), args...)
	batch := t.pending
	results, err := t.send(batch.Len() - 1)
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

// QueryRow implements tables.Conn.
func (t *transaction) QueryRow(query string, args ...any) tables.Row {
	r, err := t.Query(query, args...)
	return row{r, err}
}

// send sends the pending statements and reads the results of the first n.
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

// restartTimer gives the next statement its own statementTimeout.
func (t *transaction) restartTimer() {
	if t.timer != nil {
		t.timer.Reset(statementTimeout)
	}
}

func (t *transaction) flush() error {
	results, err := t.send(t.pending.Len())
	if err != nil {
		return err
	}
	return results.Close()
}

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
	if err == nil && tag.String() != "COMMIT" { // a statement failed, and its error was ignored
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// rollback ends the transaction. It closes a connection that may still be in it.
func (t *transaction) rollback() {
	if t.conn.IsClosed() || t.conn.PgConn().TxStatus() == 'I' {
		return
	}
	if _, err := t.conn.Exec(t.ctx, "rollback"); err != nil {
		_ = t.conn.Close(t.ctx)
	}
}

// Lock implements tables.Conn. Other transactions can still insert rows that refer to a locked row.
func (t *transaction) Lock() string { return " FOR NO KEY UPDATE" }

// Again implements tables.Conn.
func (t *transaction) Again() bool { return t.again }

// rows is the result of the last query of a batch.
type rows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Columns implements tables.Rows.
func (r rows) Columns() (names []string, err error) {
	for _, f := range r.FieldDescriptions() {
		names = append(names, f.Name)
	}
	return names, nil
}

// Close implements tables.Rows.
func (r rows) Close() error {
	r.Rows.Close()
	return r.results.Close()
}

// row is a tables.Row.
type row struct {
	rows tables.Rows
	err  error
}

// Scan implements tables.Row.
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

// queries maps queries with question marks to queries with numbered parameters. All are constants, so the map is
// bounded.
var queries sync.Map

// numbered turns ? into $1, $2 … and ?1 into $1.
func numbered(query string) string {
	if text, ok := queries.Load(query); ok {
		return text.(string)
	}
	var b strings.Builder
	parts := strings.Split(query, "?")
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteByte('$')
		if part == "" || part[0] < '0' || part[0] > '9' {
			b.WriteString(strconv.Itoa(i + 1))
		}
		b.WriteString(part)
	}
	queries.Store(query, b.String())
	return b.String()
}

// Write implements tables.Database.
func (db *database) Write(ctx context.Context, fn func(tables.Conn) error) error {
	again := false
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

// Read implements tables.Database.
func (db *database) Read(ctx context.Context, once bool, fn func(tables.Conn) error) error {
	read := func(ctx context.Context, conn *pgx.Conn, timer *time.Timer) error {
		t := begin(ctx, conn, timer, "begin isolation level repeatable read read only")
		defer t.rollback()
		if once { // its reader may be slow, and it holds no locks
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

// raw runs fn on the pool's connection itself.
func raw(conn *sql.Conn, fn func(*pgx.Conn) error) error {
	return conn.Raw(func(c any) error { return fn(c.(*stdlib.Conn).Conn()) })
}

// retry runs fn on a connection and retries while the error may pass: until ctx ends or retryFor has passed.
func (db *database) retry(ctx context.Context, fn func(context.Context, *pgx.Conn, *time.Timer) error) error {
	deadline := time.Now().Add(db.retryFor)
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		worth, err := db.onConn(ctx, fn)
		if err == nil || !worth || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("after %v: %w", db.retryFor, err)
			if !errors.As(err, new(*pgconn.PgError)) { // the connection is lost again and again
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

// onConn runs fn on a connection of the pool and reports whether a retry may help after an error.
func (db *database) onConn(caller context.Context,
	fn func(context.Context, *pgx.Conn, *time.Timer) error) (worth bool, err error) {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil && caller.Err() == nil {
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

// isUnreachable reports whether a connection failed for a reason that may pass.
func isUnreachable(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return isTransientCode(refused.Code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect)
}

func isTransient(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && isTransientCode(refused.Code)
}

// isTransientCode reports whether an error may pass, by its code (see "PostgreSQL Error Codes" in the PostgreSQL
// documentation).
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
