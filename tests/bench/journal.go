package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the journal's driver
)

// journalSize is the number of rows in the tables that turns write to, and the size of the database in bytes.
type journalSize struct{ rows, bytes int64 }

// count measures the arm's journal; the baselines have none.
func (m *meter) count(ctx context.Context, to *journalSize) error {
	if m.kind != everturn {
		return nil
	}
	db, err := sql.Open("sqlite", "file:"+m.rig.journal(m.name)+"?mode=ro")
	if err != nil {
		return err
	}
	defer db.Close()
	var pages, size int64
	const tables = "(SELECT count(*) FROM turns)+(SELECT count(*) FROM messages)+(SELECT count(*) FROM inferences)+" +
		"(SELECT count(*) FROM calls)+(SELECT count(*) FROM chunks)+(SELECT count(*) FROM blobs)"
	for query, to := range map[string]*int64{"SELECT " + tables: &to.rows, "PRAGMA page_count": &pages,
		"PRAGMA page_size": &size} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return fmt.Errorf("counting the journal of %s: %w", m, err)
		}
	}
	to.bytes = pages * size
	return nil
}
