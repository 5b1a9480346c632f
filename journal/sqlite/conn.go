package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/everturn/everturn/journal"
)

// conn is a journal.Conn: a connection that keeps its statements prepared, because SQLite takes about as long to plan
// one of the journal's statements as to run it. All statements are constants, so their number is bounded.
type conn struct {
	raw        *sql.Conn
	statements map[string]*sql.Stmt
}

func newConn(raw *sql.Conn) *conn { return &conn{raw, map[string]*sql.Stmt{}} }

// prepare returns the prepared statement for a query, and prepares it the first time.
func (c *conn) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.statements[query]; ok {
		return s, nil
	}
	s, err := c.raw.PrepareContext(ctx, query)
	if err == nil {
		c.statements[query] = s
	}
	return s, err
}

// background is the context of all statements. They do not run with the caller's context, because the caller of a
// transaction that was cancelled halfway could not know whether it was committed.
var background = context.Background()

// Query implements journal.Conn, with the prepared statement of the query.
func (c *conn) Query(query string, args ...any) (journal.Rows, error) {
	s, err := c.prepare(background, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(background, args...)
	if err != nil {
		return nil, err // not rows: a nil *sql.Rows would be a journal.Rows that is not nil
	}
	return rows, nil
}

// QueryRow implements journal.Conn.
func (c *conn) QueryRow(query string, args ...any) journal.Row {
	s, err := c.prepare(background, query)
	if err != nil {
		return c.raw.QueryRowContext(background, query, args...) // only this returns a Row that holds the error
	}
	return s.QueryRowContext(background, args...)
}

// Exec implements journal.Conn. It runs the statement at once.
func (c *conn) Exec(query string, args ...any) error {
	s, err := c.prepare(background, query)
	if err == nil {
		_, err = s.ExecContext(background, args...)
	}
	return err
}

// Lock implements journal.Conn. No clause is needed, because only one transaction at a time writes the file.
func (c *conn) Lock() string { return "" }

// Again implements journal.Conn. It is always false, because a transaction that was not committed leaves nothing.
func (c *conn) Again() bool { return false }

// close closes the prepared statements and returns the connection to the pool of database/sql.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// discard closes a connection whose state is unknown. Raw must return driver.ErrBadConn: otherwise database/sql would
// put the connection back into its pool, and its next user could get it in the middle of a transaction.
func (c *conn) discard() {
	for _, s := range c.statements {
		_ = s.Close() // the first error is reported already
	}
	_ = c.raw.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.raw.Close() // Raw has closed it
}

// pool holds the connections for reads. The pool of database/sql does not keep prepared statements with a connection,
// so this package has its own.
type pool struct {
	db    *sql.DB
	slots chan *conn    // the free connections; nil is one that is not open yet
	done  chan struct{} // closed by close
	end   sync.Once     // for close
}

// newPool returns a pool of at most size connections, which are opened when they are needed.
func newPool(db *sql.DB, size int) *pool {
	p := &pool{db: db, slots: make(chan *conn, size), done: make(chan struct{})}
	for range size {
		p.slots <- nil
	}
	return p
}

// take waits for a free connection and returns it. The caller gives it back with put or replace. It returns errClosed
// after close.
func (p *pool) take(ctx context.Context) (*conn, error) {
	select {
	case c := <-p.slots:
		if c != nil {
			return c, nil
		}
	case <-p.done:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	raw, err := p.db.Conn(ctx)
	if err != nil {
		p.slots <- nil
		return nil, err
	}
	return newConn(raw), nil
}

// put gives a connection back to the pool. err is the error of the ROLLBACK that ended its transaction: after an error
// the connection may still be in the transaction, and is replaced.
func (p *pool) put(c *conn, err error) {
	if err != nil {
		p.replace(c)
		return
	}
	p.slots <- c
}

// replace discards a connection. The next take of its slot opens another one.
func (p *pool) replace(c *conn) {
	c.discard()
	p.slots <- nil
}

// close waits for the connections in use and closes all connections.
func (p *pool) close() (err error) {
	p.end.Do(func() {
		close(p.done)
		for range cap(p.slots) {
			if c := <-p.slots; c != nil {
				err = errors.Join(err, c.close())
			}
		}
	})
	return err
}
