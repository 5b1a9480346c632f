package postgres

import (
	"context"
	"time"

	"github.com/everturn/everturn/journal"
)

// pollEvery is the interval at which the database is polled for changes while there are followers.
const pollEvery = 40 * time.Millisecond

// Changed implements journal.Database.
func (db *database) Changed(ctx context.Context, topics ...journal.Topic) <-chan struct{} {
	return db.changes.Wait(ctx, topics...)
}

// Notify implements journal.Database.
func (db *database) Notify(topics ...journal.Topic) { db.changes.Notify(topics...) }

// look is the watch.Look of the journal. The number of a turn's topic is 1 plus the index of its last event, and that
// of a session's topic is 1 plus the row of its last turn. The result also has the sessions of other tenants with the
// same IDs, which are other topics.
func (db *database) look(ctx context.Context, topics []journal.Topic) (map[journal.Topic]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var turns, sessions []string // IDs
	for _, t := range topics {
		if t.Turn != "" {
			turns = append(turns, t.Turn)
		} else {
			sessions = append(sessions, t.Session)
		}
	}
	seen := map[journal.Topic]int64{}
	if len(topics) == 0 {
		return seen, nil
	}
	rows, err := db.db.QueryContext(ctx, `
		SELECT t.turn_id, '', '', 1 + coalesce((SELECT max(idx) FROM events WHERE turn = t.id), 0) FROM turns t
			WHERE t.turn_id = ANY($1)
		UNION ALL
		SELECT '', s.session_id, s.tenant, 1 + coalesce((SELECT max(id) FROM turns WHERE session = s.id), 0) FROM sessions s WHERE s.session_id = ANY($2)`,
		turns, sessions)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t journal.Topic
		var n int64
		if err := rows.Scan(&t.Turn, &t.Session, &t.Tenant, &n); err != nil {
			return nil, err
		}
		seen[t] = n
	}
	return seen, rows.Err()
}
