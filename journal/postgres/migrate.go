package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/everturn/everturn/journal"
)

//go:embed migrations
var migrations embed.FS

// migrationLock is the key of the advisory lock that migrations take: "evtn" in ASCII.
const migrationLock = 1702261870

// ErrNotMigrated is the error of Open for a database that has no journal, or one with an older schema.
var ErrNotMigrated = errors.New("the database's journal is not migrated")

// Migrate creates the journal's tables in the database at url, or updates them to this program's schema. It reports
// whether it has changed anything. Processes that migrate at the same time wait for each other.
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

// migrate is Migrate on a connection. It checks the schema after it has the lock, because another process may have
// migrated meanwhile.
func migrate(ctx context.Context, conn *pgx.Conn) (changed bool, err error) {
	t := begin(ctx, conn, nil, "begin")
	defer t.rollback()
	if err := t.Exec(`SELECT pg_advisory_xact_lock(?)`, migrationLock); err != nil {
		return false, err
	}
	err = checkSchema(t)
	if changed = errors.Is(err, ErrNotMigrated); changed {
		err = upgrade(ctx, conn, t)
	}
	if err != nil {
		return false, err
	}
	return changed, t.commit()
}

// upgrade runs the migrations that the database lacks; their script also sets the schema's version. c is the
// transaction that is open on conn.
func upgrade(ctx context.Context, conn *pgx.Conn, c journal.Conn) error {
	version, err := schemaVersion(c)
	if err != nil {
		return err
	}
	script, err := journal.Migration(migrations, version)
	if err != nil {
		return err
	}
	// c.Exec takes one statement; conn.Exec takes a script if it has no arguments. It does not send what c has queued,
	// such as the statement that begins the transaction: the query of schemaVersion has sent that.
	_, err = conn.Exec(ctx, script)
	return err
}

// schemaVersion returns the version of the database's schema, or 0 if it has no tables.
func schemaVersion(c journal.Conn) (version int, err error) {
	var exists bool
	if err := c.QueryRow(`SELECT to_regclass('journal') IS NOT NULL`).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = c.QueryRow(`SELECT schema_version FROM journal`).Scan(&version)
	return version, err
}

// checkSchema returns an error if this program cannot use the database's journal: ErrNotMigrated if the tables are
// missing or older, journal.ErrNewer if they are too new.
func checkSchema(c journal.Conn) error {
	version, err := schemaVersion(c)
	if err != nil {
		return err
	}
	if version == 0 {
		return fmt.Errorf("%w: it has no tables: run `everturn journal migrate`", ErrNotMigrated)
	}
	if version < journal.SchemaVersion {
		return fmt.Errorf("%w: its schema version is %d, and this program's is %d: run `everturn journal migrate`",
			ErrNotMigrated, version, journal.SchemaVersion)
	}
	var minProgram int
	if err := c.QueryRow(`SELECT min_program FROM journal`).Scan(&minProgram); err != nil {
		return err
	}
	return journal.CheckSchema(minProgram)
}
