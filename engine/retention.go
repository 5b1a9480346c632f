package engine

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/internal/workspace"
)

// The pace at which events of old turns are removed: a few turns at a time, with a pause after each batch, because
// other writers of the journal wait during a batch.
const (
	pruneEvery = time.Hour
	pruneBatch = 16 // turns
	prunePause = 50 * time.Millisecond
)

// every calls do at once and then at every interval, until ctx ends or do returns false.
func every(ctx context.Context, interval time.Duration, do func() bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for do() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// prune removes the events of turns that ended longer than [journal] event_retention ago, now and at every interval
// until ctx ends. With an event_retention of 0 it removes nothing. Any number of workers may prune at the same time.
// Removals that fail are retried at the next interval.
func (e *Engine) prune(ctx context.Context, interval time.Duration) {
	keep := e.cfg.Journal.EventRetention
	if keep <= 0 {
		return
	}
	every(ctx, interval, func() bool {
		turns, err := e.pruneOnce(ctx, time.Now().Add(-keep))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			e.log.Error("removing old streams", "removed", turns, "again in", interval, "error", err)
		case turns > 0:
			e.log.Info("old streams are removed; their transcripts stay", "turns", turns, "older than", keep)
		}
		return true
	})
}

// pruneOnce removes the events of all turns that ended before a time, batch by batch, and returns the number of these
// turns. After an error or the end of ctx, that number is less.
func (e *Engine) pruneOnce(ctx context.Context, before time.Time) (turns int, err error) {
	every(ctx, prunePause, func() bool {
		var n int
		n, err = e.journal.PruneEvents(ctx, before, pruneBatch)
		turns += n
		return err == nil && n == pruneBatch // a smaller batch was the last one
	})
	return turns, err
}

// sweepEvery is how often unused trees are removed.
const sweepEvery = time.Hour

// sweepTrees removes the trees that workers of other machines have taken over, and those of sessions that nothing has
// used for [workspace] keep, now and at every interval until ctx ends. Commits that are nowhere else stay. A worker that
// calls no tools has no trees. Any number of workers may do this at the same time.
func (e *Engine) sweepTrees(ctx context.Context, interval time.Duration) {
	if e.trees == nil || elsewhere(e.cfg).Tools != "" {
		return
	}
	every(ctx, interval, func() bool {
		err := e.trees.Release(ctx)
		var swept workspace.Swept
		if keep := e.cfg.Workspace.Keep; keep > 0 {
			var serr error
			swept, serr = e.trees.Sweep(ctx, keep, time.Now())
			err = errors.Join(err, serr)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			e.log.Error("removing unused trees", "removed", swept.Trees, "again in", interval, "error", err)
		case swept.Trees+swept.Canvases > 0:
			e.log.Info("unused trees are removed", "trees", swept.Trees, "canvases", swept.Canvases, "older than",
				e.cfg.Workspace.Keep)
		}
		return true
	})
}
