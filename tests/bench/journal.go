package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers of the journals
	_ "modernc.org/sqlite"
)

// journalSize is the number of rows in the tables that turns write to, and the size of the database in bytes.
type journalSize struct{ rows, bytes int64 }

// count measures the arm's journal; the baselines have none.
func (m *meter) count(ctx context.Context, to *journalSize) error {
	if m.kind != everturn {
		return nil
	}
	driver, source := "sqlite", "file:"+m.rig.journal(m.name)+"?mode=ro"
	size := "SELECT page_count*page_size FROM pragma_page_count(), pragma_page_size()"
	if m.postgres {
		driver, source = "pgx", m.rig.postgresJournal(m.name)
		size = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = " +
			"current_schema()::regnamespace"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	const tables = "(SELECT count(*) FROM turns)+(SELECT count(*) FROM messages)+(SELECT count(*) FROM inferences)+" +
		"(SELECT count(*) FROM calls)+(SELECT count(*) FROM chunks)+(SELECT count(*) FROM blobs)"
	for query, to := range map[string]*int64{"SELECT " + tables: &to.rows, size: &to.bytes} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return fmt.Errorf("counting the journal of %s: %w", m, err)
		}
	}
	return nil
}
