package canvas

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Workers returns the workers that run.
type Workers func(ctx context.Context) ([]fleet.WorkerReport, error)

// beyondTakeover is how long a call takes at most, besides waiting until the session's tree may be taken over.
const beyondTakeover = time.Minute

// presumedAlive is how long after its last report a worker is taken to run. One that does not run any more would take a
// call that is sent to it into its queue, until that times out.
const presumedAlive = fleet.WorkerExpiry * 2 / 3

// timeout is that of the tools that act in a tree.
func (r Roots) timeout() time.Duration { return r.TakeoverAfter + beyondTakeover }

// unmade returns the error of a call for err, which the session's tree has returned. If the call was not made, or may be
// made again, and there is a reason to wait, it is a *turn.Error, with which the turn attempts the call again: on the
// worker that has the tree, or when the remote or the journal is back.
func (r Roots) unmade(ctx context.Context, err error) error {
	var elsewhere *workspace.ElsewhereError
	var remote *workspace.RemoteError
	switch {
	case errors.As(err, &elsewhere):
		e := turn.NewError(turn.CodeToolNotSent, nil, "not made: "+err.Error())
		e.RetryAfter = elsewhere.Free
		if queue := r.queueOf(ctx, elsewhere.Place); queue != "" && elsewhere.Unseen < presumedAlive {
			e.Cause = &turn.OnQueue{Queue: queue}
		}
		return e
	case errors.As(err, new(*workspace.LostError)), errors.As(err, new(*workspace.TakenError)),
		errors.As(err, &remote) && !remote.Refused:
		return turn.NewError(turn.CodeToolNotSent, nil, "not done: "+err.Error())
	case errors.Is(err, journal.ErrUnavailable):
		return turn.NewError(turn.CodeJournalUnavailable, err, "the journal did not record the state of the tree")
	}
	return err
}

// queueOf returns the home queue of a running worker that has the trees of a place, or "" if none does.
func (r Roots) queueOf(ctx context.Context, place string) string {
	if r.Workers == nil {
		return ""
	}
	workers, err := r.Workers(ctx)
	if err != nil { // the call is attempted again
		return ""
	}
	var queues []string
	for _, w := range workers {
		if w.Place == place && w.TaskQueue == r.TaskQueue && w.Home != "" {
			queues = append(queues, w.Home)
		}
	}
	if len(queues) == 0 {
		return ""
	}
	return queues[rand.IntN(len(queues))]
}
