package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/everturn/everturn/journal"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// schemaVersion is the last migration's number, which it writes to PRAGMA user_version.
	schemaVersion = 6
	// applicationID marks the file as a journal: "evtn" in ASCII.
	applicationID = 1702261870
)

// migrate brings the file's schema up to date. Where it is, that costs reading two numbers.
func (s *Store) migrate(ctx context.Context) error {
	db, err := sql.Open("sqlite", s.dsn("foreign_keys(1)"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	current, err := s.upToDate(ctx, db)
	if err != nil || current {
		return err
	}
	unlock, err := lockFile(ctx, s.path+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another process to prepare the journal: %w", err)
	}
	defer unlock()
	if current, err = s.upToDate(ctx, db); err != nil || current { // the other process may have done it
		return err
	}
	return s.apply(ctx, db)
}

func (s *Store) apply(ctx context.Context, db *sql.DB) error {
	// The mode is a property of the file. Setting it wants the file for a moment, hence here, under the lock.
	if err := s.retry(ctx, func() error { _, err := db.ExecContext(ctx, "PRAGMA journal_mode = wal"); return err }); err != nil {
		return err
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if err := s.retry(ctx, func() error { _, err := p.Up(ctx); return err }); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// upToDate reports whether the schema is this program's. It refuses a file that is newer or that is something else.
func (s *Store) upToDate(ctx context.Context, db *sql.DB) (bool, error) {
	var version, id, tables int
	err := s.retry(ctx, func() error {
		return db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
			(SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`).Scan(&version, &id, &tables)
	})
	switch {
	case err != nil:
		return false, err
	case id == applicationID && version > schemaVersion:
		return false, fmt.Errorf("%w: its schema is %d and this program knows %d: use the newer program, or another journal",
			journal.ErrNewer, version, schemaVersion)
	case id == applicationID:
		return version == schemaVersion, nil
	case id == 0 && tables == 0:
		return false, nil
	}
	if begun, err := s.begun(ctx, db); err != nil || begun {
		return false, err
	}
	return false, errors.New("the file is the database of another program: choose another path for the journal")
}

// begun reports whether the file is a journal that is being made: it holds nothing but the migration tool's own table, which
// is what a process leaves that dies before its first migration, or it has become a journal since it was looked at. The
// mark and the tables come in one transaction, so that where there are tables and then no mark, they are somebody else's.
func (s *Store) begun(ctx context.Context, db *sql.DB) (bool, error) {
	var others, id int
	err := s.retry(ctx, func() error {
		return db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE tbl_name NOT IN ('goose_db_version', 'sqlite_sequence')`).Scan(&others)
	})
	if err == nil && others > 0 {
		err = s.retry(ctx, func() error { return db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id) })
	}
	return others == 0 || id == applicationID, err
}
