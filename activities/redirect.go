package activities

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Workers of one task queue may have different tools, because their configurations or programs differ, above all during a
// deployment. A turn has the tools of the worker that began it. A call goes to any worker at first; one that lacks the
// tool, or has another version of it, sends the call on to the task queue of a worker that has it.

// redirect returns the error with which a call goes to a worker that has its tool, if that is why it failed with err and
// such a worker runs. If none runs, a call of a tool that this worker does not have waits for one as for a tool server.
func (a *Activities) redirect(ctx context.Context, in workflows.CallInput, err error) error {
	if !errors.Is(err, turn.ErrToolAbsent) && turn.CodeOf(err) != turn.CodeToolDrift {
		return err
	}
	queue, lookup := a.workerWith(ctx, in.Tool)
	switch {
	case lookup != nil:
		logFailure(ctx, asTurnError(lookup))
		return err
	case queue == "":
		return err
	case local(ctx): // it is attempted again as a regular activity
		return turn.ToolAbsent(in.Tool.ID)
	}
	return workflows.OnWorker(queue)
}

// workerWith returns the task queue of another running worker that offers this version of the tool, or an empty string.
func (a *Activities) workerWith(ctx context.Context, t turn.Tool) (string, error) {
	workers, err := a.journal.Workers(ctx)
	if err != nil {
		return "", err
	}
	catalogues, err := a.journal.OfferedBy(ctx, nil)
	if err != nil {
		return "", err
	}
	var queues []string
	for _, c := range catalogues {
		if !offers(c, t) {
			continue
		}
		for _, w := range workers {
			if w.Home != "" && w.Home != a.home && w.TaskQueue == a.taskQueue && w.Offers[c.Server] == c.Version() {
				queues = append(queues, w.Home)
			}
		}
	}
	if len(queues) == 0 {
		return "", nil
	}
	return queues[rand.IntN(len(queues))], nil
}

// offers reports whether a catalogue has this version of a tool.
func offers(c turn.Catalogue, t turn.Tool) bool {
	for _, d := range c.Tools {
		if d.ID == t.ID && d.Hash == t.Hash {
			return true
		}
	}
	return false
}

// Fleet reads the reports of the running workers.
type Fleet interface {
	Workers(ctx context.Context) ([]fleet.WorkerReport, error)
}
