package engine

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what an engine needs of a journal.DB, which documents the methods.
type Journal interface {
	activities.Journal
	client.Journal
	capacity.Journal
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)
	OpenRequests(ctx context.Context) (map[turn.RequestKind]int64, error)
	PruneEvents(ctx context.Context, before time.Time, limit int) (turns int, err error)
	ReportWorker(ctx context.Context, r fleet.WorkerReport) error
	RemoveWorker(ctx context.Context, id string) error
}

var _ Journal = (*journal.DB)(nil)

// journalEvery is how often a worker checks that the journal's file is still the one that it has open.
const journalEvery = time.Second

// watchJournal stops the worker if the journal's SQLite file was deleted or replaced. Otherwise the worker would write
// to a file that no other process sees. Postgres needs no such check, because a missing database is an error.
func (e *Engine) watchJournal(ctx context.Context) {
	if e.cfg.Journal.Postgres() {
		return
	}
	every(ctx, journalEvery, func() bool {
		_, err := e.journal.Turn(ctx, "") // no turn has this ID: any read compares the files
		if errors.Is(err, journal.ErrReplaced) {
			e.fail(err)
			return false
		}
		return true
	})
}
