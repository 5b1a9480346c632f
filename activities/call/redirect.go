package call

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Workers of one task queue may have different tools, because their configurations or programs differ, above all
// during a deployment. A turn has the tools of the worker that began it. A call goes to any worker at first. A worker
// that lacks the tool, or has another version of it, redirects the call to the task queue of a worker that has it. A
// tool, too, can name the only worker that can run a call, for instance because it has the session's files.

// redirect returns the error of a call that failed with err. If it failed because this worker does not have the tool
// in the turn's version and another running worker does, that is an error with which the workflow schedules the call
// on the other worker. Otherwise it is err. A call of an absent tool then waits for a worker as for an unavailable
// server.
func (r *Runner) redirect(ctx context.Context, in workflows.CallInput, err error) error {
	if only := new(turn.OnQueue); errors.As(err, &only) && !attempt.IsLocal(ctx) && only.Queue != r.home {
		return workflows.OnWorker(only.Queue)
	}
	if !errors.Is(err, turn.ErrToolAbsent) && turn.CodeOf(err) != turn.CodeToolDrift {
		return err
	}
	queue, lookup := r.workerWith(ctx, in.Tool)
	switch {
	case lookup != nil:
		attempt.LogFailure(ctx, attempt.AsTurnError(lookup))
		return err
	case queue == "":
		return err
	case attempt.IsLocal(ctx): // the workflow attempts it again as a regular activity, which can be redirected
		return turn.ToolAbsent(in.Tool.ID)
	}
	return workflows.OnWorker(queue)
}

// workerWith returns the home queue of another running worker that offers this version of the tool: a random one if
// several do, or "" if none does.
func (r *Runner) workerWith(ctx context.Context, t turn.Tool) (string, error) {
	workers, err := r.journal.Workers(ctx)
	if err != nil {
		return "", err
	}
	catalogues, err := r.journal.OfferedBy(ctx, nil)
	if err != nil {
		return "", err
	}
	var queues []string
	for _, c := range catalogues {
		if !c.Offers(t) {
			continue
		}
		for _, w := range workers {
			if w.Home != "" && w.Home != r.home && w.TaskQueue == r.taskQueue && w.Offers[c.Server] == c.Version() {
				queues = append(queues, w.Home)
			}
		}
	}
	if len(queues) == 0 {
		return "", nil
	}
	return queues[rand.IntN(len(queues))], nil
}
