package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal"
)

//go:embed migrations/0001.sql
var schema string

// applicationID marks the file as a journal: "evtn" in ASCII.
const applicationID = 1702261870

// migrate creates the schema in a new file. For an existing journal it only reads two numbers.
func (s *database) migrate(ctx context.Context) error {
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
	// The journal mode is a property of the file, and cannot be set in a transaction.
	for _, statement := range []string{
		"PRAGMA journal_mode = wal",
		fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; COMMIT", schema, applicationID),
	} {
		if err := s.retry(ctx, func() error { _, err := db.ExecContext(ctx, statement); return err }); err != nil {
			return fmt.Errorf("creating the tables: %w", err)
		}
	}
	return nil
}

// upToDate reports whether the file is a journal. It refuses a journal that this program cannot use, and other
// databases.
func (s *database) upToDate(ctx context.Context, db *sql.DB) (bool, error) {
	var id, tables, minProgram int
	err := s.retry(ctx, func() error {
		t, err := db.BeginTx(ctx, nil) // one snapshot: another process may be creating the tables
		if err != nil {
			return err
		}
		defer t.Rollback()
		err = t.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
			(SELECT count(*) FROM sqlite_schema)`).Scan(&id, &tables)
		if err != nil || id != applicationID {
			return err
		}
		return t.QueryRowContext(ctx, `SELECT min_program FROM journal`).Scan(&minProgram)
	})
	switch {
	case err != nil:
		return false, err
	case id == applicationID:
		return true, journal.CheckSchema(minProgram)
	case id != 0 || tables != 0:
		return false, errors.New("the file is the database of another program: choose another path for the journal")
	}
	return false, nil
}
