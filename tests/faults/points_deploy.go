package main

import (
	"context"
	"errors"
	"time"
)

// deploys returns the points at which new versions of the worker come, and go, while turns run.
func deploys() []point {
	return []point{
		{
			name: "deploy_rolled_back", about: "a worker with another workflow takes a turn over, and is rolled back",
			interruptions: 1, shape: block(once, "before"),
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToEvent(ctx, "begun"); err != nil {
					return err
				}
				if err := reach(ctx, "the companion's answer", func() bool { return r.over(ctx, r.companion) }); err != nil {
					return err
				}
				r.first().kill()
				return errors.Join(r.deployBad(ctx), r.release(), r.rollBack(ctx))
			},
		},
	}
}

// deployBad starts a worker whose workflow schedules a timer that no history has, and waits until it is stuck with the
// target: production's panic policy fails the workflow task, and not the workflow.
func (r *harness) deployBad(ctx context.Context) error {
	bad, err := r.workAs(ctx, r.programs.mutant, "-kill", "", "-mutant", "history_changed")
	if err != nil {
		return err
	}
	return reach(ctx, "a task that does not replay",
		func() bool { return bad.logged("nondetermin") || bad.logged("TMPRL1100") })
}

// rollBack ends the bad worker as an operator does and starts a good one in its place.
func (r *harness) rollBack(ctx context.Context) error {
	if err := pause(ctx, time.Second); err != nil { // long enough for the bad one to fail again
		return err
	}
	if err := r.workers[len(r.workers)-1].end(10 * time.Second); err != nil {
		return err
	}
	return r.heal(ctx)
}

// over reports whether a turn is settled in the journal.
func (r *harness) over(ctx context.Context, t *turnPlan) bool {
	turns, err := r.journal.Turns(ctx, t.session)
	if err != nil {
		return false
	}
	for _, got := range turns {
		if got.MessageID == t.id {
			return got.State.Terminal()
		}
	}
	return false
}
