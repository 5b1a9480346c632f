package floor

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Input is the number of activities to run.
type Input struct {
	Hops  int  `json:"hops"`
	Calls int  `json:"calls"` // in parallel, per hop
	Local bool `json:"local"` // the calls are local activities
}

// Turn has the shape of a turn: an activity for each inference, with the calls of a hop between them.
func Turn(ctx workflow.Context, in Input) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	for hop := range in.Hops + 1 {
		if err := workflow.ExecuteActivity(ctx, Nothing).Get(ctx, nil); err != nil {
			return err
		}
		if hop < in.Hops {
			if err := hopCalls(ctx, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func hopCalls(ctx workflow.Context, in Input) error {
	futures := make([]workflow.Future, in.Calls)
	for i := range futures {
		if in.Local {
			futures[i] = workflow.ExecuteLocalActivity(ctx, Nothing)
		} else {
			futures[i] = workflow.ExecuteActivity(ctx, Nothing)
		}
	}
	for _, f := range futures {
		if err := f.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// Nothing is the empty activity.
func Nothing(context.Context) error { return nil }

// Run runs a worker until ctx ends.
func Run(ctx context.Context, c client.Client, taskQueue string, o worker.Options) error {
	w := worker.New(c, taskQueue, o)
	w.RegisterWorkflow(Turn)
	w.RegisterActivity(Nothing)
	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}
