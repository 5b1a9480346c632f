package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/everturn/everturn/journal"
)

//go:embed migrations/0001.sql
var schema string

// migrationLock is the key of the advisory lock that migrations take: "evtn" in ASCII.
const migrationLock = 1702261870

// ErrNotMigrated: the database has no journal, or its journal has an older schema.
var ErrNotMigrated = errors.New("the database's journal is not migrated")

// Migrate creates the journal's tables in the database at url, or does nothing if they exist. It reports whether it has
// changed anything. Processes that migrate at the same time wait for each other.
func Migrate(ctx context.Context, url string) (changed bool, err error) {
	cfg, err := parse(url)
	if err != nil {
		return false, fmt.Errorf("migrating the journal in Postgres: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx))
		changed, err = migrate(ctx, conn)
	}
	if err != nil {
		return false, fmt.Errorf("migrating the journal in Postgres: %w", explain(err))
	}
	return changed, nil
}

func migrate(ctx context.Context, conn *pgx.Conn) (changed bool, err error) {
	t := begin(ctx, conn, nil, "begin")
	defer t.rollback()
	if err := t.Exec(`SELECT pg_advisory_xact_lock(?)`, migrationLock); err != nil {
		return false, err
	}
	err = checkSchema(t)
	if errors.Is(err, ErrNotMigrated) {
		changed = true
		_, err = conn.Exec(ctx, schema)
	}
	if err != nil {
		return false, err
	}
	return changed, t.commit()
}

// checkSchema refuses a database whose journal this program cannot use.
func checkSchema(c journal.Conn) error {
	var there bool
	if err := c.QueryRow(`SELECT to_regclass('journal') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%w: it has no tables: run `starter journal migrate`", ErrNotMigrated)
	}
	var version, minProgram int
	if err := c.QueryRow(`SELECT schema_version, min_program FROM journal`).Scan(&version, &minProgram); err != nil {
		return err
	}
	if version < journal.SchemaVersion {
		return fmt.Errorf("%w: its schema version is %d, and this program's is %d: run `starter journal migrate`",
			ErrNotMigrated, version, journal.SchemaVersion)
	}
	return journal.CheckSchema(minProgram)
}
