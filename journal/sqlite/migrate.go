package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
)

//go:embed migrations
var migrations embed.FS

// applicationID marks the file as a journal: "evtn" in ASCII.
const applicationID = 1702261870

// migrate creates the tables in a new file, or updates the schema of an older journal. A file lock keeps two processes
// from doing so at once; if the schema is up to date, migrate takes no lock and only reads the version.
func (d *database) migrate(ctx context.Context) error {
	db, err := sql.Open("sqlite", d.dsn("foreign_keys(1)"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	version, err := d.schemaVersion(ctx, db)
	if err != nil || version >= journal.SchemaVersion {
		return err
	}
	lock, err := statedir.Exclusive(ctx, d.path+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another process to prepare the journal: %w", err)
	}
	defer lock.Release()
	// Another process that held the lock may have updated the schema.
	if version, err = d.schemaVersion(ctx, db); err != nil || version >= journal.SchemaVersion {
		return err
	}
	script, err := journal.Migration(migrations, version)
	if err != nil {
		return err
	}
	// The journal mode is a property of the file, and cannot be set in a transaction.
	for _, statement := range []string{
		"PRAGMA journal_mode = wal",
		fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; COMMIT", script, applicationID),
	} {
		if err := d.retry(ctx, func() error { _, err := db.ExecContext(ctx, statement); return err }); err != nil {
			return fmt.Errorf("creating the tables: %w", err)
		}
	}
	return nil
}

// checkVersion returns an error if a journal that cannot be migrated, because it is read-only, has another schema than
// this program can read: an older one, or one that is too new.
func (d *database) checkVersion(ctx context.Context) error {
	db, err := sql.Open("sqlite", d.dsn())
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := d.schemaVersion(ctx, db)
	if err == nil && version < journal.SchemaVersion {
		err = fmt.Errorf("%w, and its schema version is %d while this program's is %d: run `everturn journal migrate` on a "+
			"copy that can be written", journal.ErrReadOnly, version, journal.SchemaVersion)
	}
	return err
}

// schemaVersion returns the version of the file's schema, or 0 if the file is empty. It returns an error if the file is
// the database of another program, or a journal that is too new for this program.
func (d *database) schemaVersion(ctx context.Context, db *sql.DB) (version int, err error) {
	var id, tables, minProgram int
	err = d.retry(ctx, func() error {
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
		return t.QueryRowContext(ctx, `SELECT schema_version, min_program FROM journal`).Scan(&version, &minProgram)
	})
	switch {
	case err != nil:
		return 0, err
	case id == applicationID:
		return version, journal.CheckSchema(minProgram)
	case id != 0 || tables != 0:
		return 0, errors.New("the file is the database of another program: choose another path for the journal")
	}
	return 0, nil
}
