package engine

import (
	"context"
	"time"
)

// The pace at which chunks of old turns are removed: a few turns at a time with a pause after each batch, because the
// journal's other writers wait meanwhile, and at most maxPrunedTurns turns an hour.
const (
	pruneEvery     = time.Hour
	pruneBatch     = 16 // turns
	prunePause     = 50 * time.Millisecond
	maxPrunedTurns = 20_000 // turns
)

// prune removes the chunks of turns that ended longer than [journal] chunk_retention ago, now and at every interval
// until ctx ends. Any number of workers may prune at the same time. Removals that fail are retried at the next
// interval.
func (e *Engine) prune(ctx context.Context, every time.Duration) {
	keep := e.cfg.Journal.ChunkRetention
	if keep <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		turns, err := e.pruneOnce(ctx, time.Now().Add(-keep))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.log.Error("removing old streams", "removed", turns, "again in", every, "error", err)
		case turns > 0:
			e.log.Info("old streams are removed; their transcripts stay", "turns", turns, "older than", keep)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pruneOnce removes the chunks of turns that ended before a time, and returns the number of turns.
func (e *Engine) pruneOnce(ctx context.Context, before time.Time) (turns int, err error) {
	pause := time.NewTicker(prunePause)
	defer pause.Stop()
	for turns < maxPrunedTurns {
		n, err := e.journal.PruneChunks(ctx, before, pruneBatch)
		turns += n
		if err != nil || n < pruneBatch {
			return turns, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return turns, ctx.Err()
		}
	}
	return turns, nil
}
