package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers of the journals
	_ "modernc.org/sqlite"
)

// journalSize is a number of rows, by default of all tables that turns write to, and the database's size in bytes.
type journalSize struct{ rows, bytes int64 }

// count measures the arm's journal; the baselines have none.
func (m *meter) count(ctx context.Context, to *journalSize) error {
	if m.kind != everturn {
		return nil
	}
	const tables = "(SELECT count(*) FROM turns)+(SELECT count(*) FROM messages)+(SELECT count(*) FROM inferences)+" +
		"(SELECT count(*) FROM calls)+(SELECT count(*) FROM events)+(SELECT count(*) FROM blobs)"
	var err error
	*to, err = m.harness.journalSize(ctx, m.name, m.postgres, "SELECT "+tables)
	return err
}

// journalSize returns the size of a journal, with the number of rows that a query counts.
func (r *harness) journalSize(ctx context.Context, name string, inPostgres bool, rows string) (to journalSize, err error) {
	driver, source := "sqlite", "file:"+r.journal(name)+"?mode=ro"
	size := "SELECT page_count*page_size FROM pragma_page_count(), pragma_page_size()"
	if inPostgres {
		driver, source = "pgx", r.postgresJournal(name)
		size = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = " +
			"current_schema()::regnamespace"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return to, err
	}
	defer db.Close()
	for query, to := range map[string]*int64{rows: &to.rows, size: &to.bytes} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return journalSize{}, fmt.Errorf("measuring the journal of %s: %w", name, err)
		}
	}
	return to, nil
}
