package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/internal/watch"
)

// Options configures a journal. The zero value is ready to use.
type Options struct {
	// RetryFor is how long an operation retries when the server is unreachable or when it loses races to other
	// transactions, if its context does not end earlier. 0 means 10 s.
	RetryFor time.Duration
	// MaxConns is the maximum number of connections of this process. 0 means 16.
	MaxConns int
}

const (
	defaultRetryFor = 10 * time.Second
	defaultMaxConns = 16
	// statementTimeout bounds each statement, in case the server does not answer.
	statementTimeout = 30 * time.Second
	idleTime         = 5 * time.Minute
	// idleInTransaction is how long the server waits for the next statement of a transaction before it ends the
	// transaction. The process may have stopped, for example because its machine was suspended, and the transaction's
	// locks delay the other workers.
	idleInTransaction = 10 * time.Second
)

// database is a journal.Database in Postgres.
type database struct {
	db       *sql.DB
	retryFor time.Duration // Options.RetryFor, or its default
	changes  *watch.Changes
}

// Open opens the journal at url, a libpq connection string ("postgres://user@host/database"). Passwords can be in
// PGPASSWORD or in a password file. Open returns an error that wraps journal.ErrNewer if the schema is too new for this
// program, and one that wraps ErrNotMigrated if Migrate has to run first.
func Open(ctx context.Context, url string, opts Options) (*journal.DB, error) {
	db, err := connect(url, opts)
	if err != nil {
		return nil, fmt.Errorf("opening the journal in Postgres: %w", err)
	}
	err = db.Read(ctx, false, func(c journal.Conn) error { return checkSchema(c) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal in Postgres: %w", db.Explain(err)), db.Close())
	}
	return journal.New(db), nil
}

// setIdleTimeout is the statement that sets idleInTransaction. Each transaction sends it, without a round trip of its
// own. It is not a parameter of the connection, because some poolers refuse unknown parameters, and some give each
// transaction another connection.
var setIdleTimeout = fmt.Sprintf("set local idle_in_transaction_session_timeout = %d", idleInTransaction.Milliseconds())

// connect returns the database at url. It opens no connection yet.
func connect(url string, opts Options) (*database, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	db := &database{db: stdlib.OpenDB(*cfg), retryFor: opts.RetryFor}
	if db.retryFor <= 0 {
		db.retryFor = defaultRetryFor
	}
	conns := opts.MaxConns
	if conns <= 0 {
		conns = defaultMaxConns
	}
	db.db.SetMaxOpenConns(conns)
	db.db.SetMaxIdleConns(conns)
	db.db.SetConnMaxIdleTime(idleTime)
	db.changes = watch.New(pollEvery, db.look)
	return db, nil
}

// parse returns the configuration of connections to url. Its errors do not quote url, which may contain a password.
func parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the connection string is not valid (%w): use postgres://user@host:5432/database", err)
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "everturn"
	}
	return cfg, nil
}

// Password returns the password with which Open connects to url, wherever it is set. It returns "" if there is none or
// url is not valid, and for the name of the user or the database as the password, because a name is no secret.
func Password(url string) string {
	cfg, err := parse(url)
	if err != nil || cfg.Password == cfg.User || cfg.Password == cfg.Database {
		return ""
	}
	return cfg.Password
}

// Renumber implements journal.Database. It does nothing for a table without a column id.
func (db *database) Renumber(c journal.Conn, table string) error {
	var hasID bool
	err := c.QueryRow(`SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = ?::regclass AND attname = 'id')`,
		table).Scan(&hasID)
	if err != nil || !hasID {
		return err
	}
	return c.Exec(`SELECT setval(pg_get_serial_sequence(?, 'id'), (SELECT coalesce(max(id), 0) + 1 FROM `+table+
		`), false)`, table)
}

// TempDir implements journal.Database.
func (db *database) TempDir() string { return "" }

// ReadOnly implements journal.Database. A server that is read-only now may be promoted later.
func (db *database) ReadOnly() error { return nil }

// Close implements journal.Database.
func (db *database) Close() error {
	db.changes.Close()
	return db.db.Close()
}
