package journal

import (
	"context"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

// pruneBatch is the number of turns whose events one transaction removes, so that running turns do not wait long.
const pruneBatch = 16

// PruneEvents removes the events of turns that ended before the given time, of at most limit turns of all tenants,
// and returns the number of these turns. The transcript stays. A pruned turn keeps its turn_completed, so that
// followers end. If PruneEvents returns an error, the turns that it counts are pruned nevertheless.
func (db *DB) PruneEvents(ctx context.Context, before time.Time, limit int) (turns int, err error) {
	for turns < limit {
		batch := min(pruneBatch, limit-turns)
		var pruned []int64
		err := db.write(ctx, "removing old events", func(t *tx) (err error) {
			// If this is another run of the transaction, pruned has the turns of the run before.
			if done, err := t.isPruned(pruned); done || err != nil {
				return err
			}
			pruned, err = t.prune(tables.Nanos(before), batch)
			return err
		})
		if err != nil {
			return turns, err
		}
		if turns += len(pruned); len(pruned) < batch {
			break
		}
	}
	return turns, nil
}

// isPruned reports whether an earlier run of this transaction has pruned these turns: the reply to its commit was lost,
// but it was committed. The turns of a run are committed together: if the first one is pruned, all of them are.
func (t *tx) isPruned(turns []int64) (done bool, err error) {
	if !t.Again() || len(turns) == 0 {
		return false, nil
	}
	err = t.Row(`SELECT pruned FROM turns WHERE id = ?`, turns[0]).Scan(&done)
	return done, err
}

// prune removes the events of at most limit turns that ended before a time, in nanoseconds since 1970, and returns the
// rows of these turns.
func (t *tx) prune(before int64, limit int) (list []int64, err error) {
	list, err = tables.Column[int64](t.Querier,
		`SELECT id FROM turns WHERE NOT pruned AND ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?`+
			t.Lock(), before, limit)
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		if err := t.Exec(`DELETE FROM events WHERE turn = ? AND kind <> ?`, n, string(turn.EventTurnCompleted)); err != nil {
			return nil, err
		}
		if err := t.Exec(`UPDATE turns SET pruned = TRUE WHERE id = ?`, n); err != nil {
			return nil, err
		}
	}
	return list, nil
}
