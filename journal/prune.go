package journal

import (
	"context"
	"database/sql"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// pruneBatch is the number of turns whose chunks one transaction removes, so that running turns do not wait long.
const pruneBatch = 16

// PruneChunks implements Store. The turns that it counts are pruned even if it returns an error.
func (s *DB) PruneChunks(ctx context.Context, before time.Time, limit int) (turns int, err error) {
	for turns < limit {
		n, batch := 0, min(pruneBatch, limit-turns)
		err := s.write(ctx, "removing old chunks", func(t *tx) (err error) {
			n, err = t.prune(nanos(before), batch)
			return err
		})
		if err != nil {
			return turns, err
		}
		if turns += n; n < batch {
			break
		}
	}
	return turns, nil
}

func (t *tx) prune(before int64, limit int) (int, error) {
	var list []int64
	err := t.each(func(rows *sql.Rows) error {
		var n int64
		err := rows.Scan(&n)
		list = append(list, n)
		return err
	}, `SELECT id FROM turns WHERE NOT pruned AND ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?`+t.Lock(), before, limit)
	if err != nil {
		return 0, err
	}
	for _, n := range list {
		if err := t.exec(`DELETE FROM chunks WHERE turn = ? AND kind <> ?`, n, string(turn.ChunkTurnCompleted)); err != nil {
			return 0, err
		}
		if err := t.exec(`UPDATE turns SET pruned = TRUE WHERE id = ?`, n); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}
