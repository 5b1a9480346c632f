package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the journal's driver

	"github.com/everturn/everturn/tests/bench/report"
)

// journal counts what a turn of Everturn leaves in its journal: rows of all tables, and bytes of the database.
func (m *meter) journal(ctx context.Context, one *report.Measure) error {
	if m.kind != everturn {
		return nil
	}
	db, err := sql.Open("sqlite", "file:"+m.rig.journal(m.name)+"?mode=ro")
	if err != nil {
		return err
	}
	defer db.Close()
	var rows, pages, size int64
	const tables = "(SELECT count(*) FROM turns)+(SELECT count(*) FROM messages)+(SELECT count(*) FROM inferences)+" +
		"(SELECT count(*) FROM calls)+(SELECT count(*) FROM chunks)+(SELECT count(*) FROM blobs)"
	for query, to := range map[string]*int64{"SELECT " + tables: &rows, "PRAGMA page_count": &pages, "PRAGMA page_size": &size} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return fmt.Errorf("counting the journal of %s: %w", m, err)
		}
	}
	one.JournalRows, one.JournalBytes = float64(rows)/float64(m.next), float64(pages*size)/float64(m.next)
	return nil
}
