package adapters

import (
	"context"
	"math/rand/v2"

	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/journal/fleet"
)

// openTrees opens the trees of sessions, or returns nil if all sessions share a folder.
func openTrees(ctx context.Context, cfg config.Config, o ToolOptions) (*canvas.Roots, error) {
	if cfg.Workspace.Mode == config.WorkspaceFolder {
		return nil, nil //nolint:nilnil // there are none
	}
	store, err := workspace.Open(ctx, TreeOptions(cfg, o.Worker, o.Trees))
	if err != nil {
		return nil, temporalconn.WithKind(config.ErrInvalid, err)
	}
	if o.OnTrees != nil {
		o.OnTrees(store)
	}
	roots := canvas.Roots{Store: store, Lineage: lineage(o.Sessions), TakeoverAfter: cfg.Workspace.TakeoverAfter}
	if o.Trees != nil {
		roots.QueueOf = func(ctx context.Context, e *workspace.ElsewhereError) string {
			return queueOf(ctx, o.Trees(), cfg.Temporal.TaskQueue, e)
		}
	}
	return &roots, nil
}

// presumedAlive is how long after its last report a worker is taken to run. One that does not run any more would take a
// call that is sent to it into its queue, until that times out.
const presumedAlive = fleet.WorkerExpiry * 2 / 3

// queueOf returns the home queue of a worker of the task queue that has the tree of the error, or "" if none is known to
// run.
func queueOf(ctx context.Context, j Trees, taskQueue string, e *workspace.ElsewhereError) string {
	if e.Unseen > presumedAlive {
		return ""
	}
	workers, err := j.Workers(ctx)
	if err != nil { // the call is attempted again
		return ""
	}
	var queues []string
	for _, w := range workers {
		if w.Place == e.Place && w.TaskQueue == taskQueue && w.Home != "" {
			queues = append(queues, w.Home)
		}
	}
	if len(queues) == 0 {
		return ""
	}
	return queues[rand.IntN(len(queues))]
}

// Trees is what the trees of sessions need of a journal.DB.
type Trees interface {
	workspace.Journal
	Workers(ctx context.Context) ([]fleet.WorkerReport, error)
}

// TreeOptions returns the options of the store of the trees. worker is the identity of this process for the journal that
// trees returns; trees may be nil.
func TreeOptions(cfg config.Config, worker string, trees func() Trees) workspace.Options {
	w := cfg.Workspace
	o := workspace.Options{Repo: cfg.Runtime.Workspace, State: cfg.StateDir(), Worker: worker,
		TakeoverAfter: w.TakeoverAfter, Remote: w.Remote.Reveal()}
	if trees != nil {
		o.Journal = func() workspace.Journal { return trees() }
	}
	return o
}
