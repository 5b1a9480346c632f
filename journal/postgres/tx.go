package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/everturn/everturn/journal"
)

// transaction is a journal.Conn.
type transaction struct {
	ctx   context.Context
	tx    *sql.Tx
	again bool
	timer *time.Timer // ends ctx if the server stops answering; nil if there is no limit
}

// next is called before each statement and restarts its statementTimeout.
func (t transaction) next() {
	if t.timer != nil {
		t.timer.Reset(statementTimeout)
	}
}

// Query implements journal.Conn.
func (t transaction) Query(query string, args ...any) (*sql.Rows, error) {
	t.next()
	return t.tx.QueryContext(t.ctx, numbered(query), args...)
}

// QueryRow implements journal.Conn.
func (t transaction) QueryRow(query string, args ...any) *sql.Row {
	t.next()
	return t.tx.QueryRowContext(t.ctx, numbered(query), args...)
}

// Exec implements journal.Conn.
func (t transaction) Exec(query string, args ...any) error {
	t.next()
	_, err := t.tx.ExecContext(t.ctx, numbered(query), args...)
	return err
}

// Lock implements journal.Conn. Other transactions can still insert rows that refer to a locked row.
func (t transaction) Lock() string { return " FOR NO KEY UPDATE" }

// Again implements journal.Conn.
func (t transaction) Again() bool { return t.again }

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

// Write implements journal.Database.
func (s *database) Write(ctx context.Context, fn func(journal.Conn) error) error {
	again := false
	return s.retry(ctx, func(ctx context.Context, conn *sql.Conn, timer *time.Timer) error {
		t, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer t.Rollback()
		in := transaction{ctx, t, again, timer}
		if err := fn(in); err != nil {
			return err
		}
		in.next()
		err = t.Commit()
		again = again || err != nil
		return err
	})
}

// Read implements journal.Database.
func (s *database) Read(ctx context.Context, once bool, fn func(journal.Conn) error) error {
	read := func(ctx context.Context, conn *sql.Conn, timer *time.Timer) error {
		t, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return err
		}
		defer t.Rollback()
		return fn(transaction{ctx, t, false, timer})
	}
	if once {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return read(ctx, conn, nil)
	}
	return s.retry(ctx, read)
}

// retry runs fn on a connection and retries while the error may pass: until ctx ends or retryFor has passed.
func (s *database) retry(ctx context.Context, fn func(context.Context, *sql.Conn, *time.Timer) error) error {
	deadline := time.Now().Add(s.retryFor)
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		worth, err := s.onConn(ctx, fn)
		if err == nil || !worth || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", s.retryFor, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// onConn runs fn on a connection of the pool and reports whether a retry may help after an error.
func (s *database) onConn(caller context.Context, fn func(context.Context, *sql.Conn, *time.Timer) error) (worth bool, err error) {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil && caller.Err() == nil {
			err = fmt.Errorf("%w: the server has not answered for %v", journal.ErrUnavailable, statementTimeout)
		}
	}()
	timer := time.AfterFunc(statementTimeout, cancel)
	defer timer.Stop()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return unreachable(err), err
	}
	defer conn.Close()
	if err = fn(ctx, conn, timer); err == nil {
		return false, nil
	}
	return lost(conn) || lostRace(err), err
}

// lost reports whether a connection is closed. pgx closes it when the server is gone, and when a statement's context
// ends.
func lost(conn *sql.Conn) bool {
	closed := true
	_ = conn.Raw(func(c any) error {
		closed = c.(*stdlib.Conn).Conn().IsClosed()
		return nil
	})
	return closed
}

// unreachable reports whether a connection failed for a reason that may pass.
func unreachable(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return transient(refused.Code)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect)
}

func lostRace(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && transient(refused.Code)
}

// transient reports whether an error may pass, by its code (see "PostgreSQL Error Codes" in the PostgreSQL
// documentation).
func transient(code string) bool {
	switch code {
	case "40001", "40P01", // serialization failure, deadlock
		"23505",                   // unique violation: another transaction was faster; the next run finds its row
		"53300",                   // too many connections
		"55P03",                   // lock not available
		"57P01", "57P02", "57P03", // the server shuts down, has crashed, or is starting
		"25006": // read only: a standby that is being promoted
		return true
	}
	return strings.HasPrefix(code, "08") // connection exceptions
}
