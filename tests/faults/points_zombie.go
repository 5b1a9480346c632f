package main

import (
	"context"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
)

// zombies returns the points at which a worker is stopped past its timeouts and comes back when others have done its
// work.
func zombies() []point {
	return []point{
		{
			name: "zombie_call", about: "it comes back with a result", interruptions: 1, shape: block(once, "after"),
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToEvent(ctx, "effect"); err != nil {
					return err
				}
				return r.undead(ctx, r.settle, r.release, r.lateResult)
			},
		},
		{
			name: "zombie_inference", about: "it comes back with an answer", interruptions: 1, shape: hold,
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				return r.undead(ctx, r.settle, r.openGate, r.lateAnswer)
			},
		},
		{
			name: "zombie_rival", about: "it comes back while another answers", interruptions: 4, shape: holdBoth,
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				second := func() error { return r.askedTwice(ctx, len(r.target.steps)) }
				if err := r.undead(ctx, second, r.openGate, r.lateAnswer); err != nil {
					return err
				}
				r.rival.Release()
				return nil
			},
		},
	}
}

// holdBoth holds the second attempt of the target's last answer too, at a separate gate.
func holdBoth(r *harness) {
	hold(r)
	r.rival = fakellm.NewGate()
	before := r.adapt
	r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
		if reply = before(q, t, reply); t.id == r.target.id && q.Step == len(t.steps) && q.Attempt == 2 {
			return reply.Hold(3, r.rival)
		}
		return reply
	}
}

func (r *harness) openGate() error {
	r.gate.Release()
	return nil
}

// undead stops the first worker, starts another one, waits until that one has come far enough, and resumes the first
// one.
func (r *harness) undead(ctx context.Context, far, release func() error, back func(context.Context) error) error {
	if err := r.database.freeze(ctx, r.first()); err != nil {
		return err
	}
	if err := r.heal(ctx); err != nil {
		return err
	}
	if err := far(); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	r.thaw()
	return back(ctx)
}

// lateResult waits until the journal has kept a result that came too late.
func (r *harness) lateResult(ctx context.Context) error {
	return reach(ctx, "the zombie's result", func() bool {
		calls, err := r.journal.Calls(ctx, r.turnID(ctx))
		return err == nil && anyOf(calls, func(c journal.CallRecord) bool { return c.LateCount > 0 })
	})
}

// lateAnswer waits until the zombie was refused: by the journal, which counts its answer as late or tells it that it is
// stale, by the server, or by its own deadline, which has passed while it was stopped.
func (r *harness) lateAnswer(ctx context.Context) error {
	return reach(ctx, "the zombie's answer", func() bool {
		list, err := r.journal.Inferences(ctx, r.turnID(ctx))
		late := err == nil && anyOf(list, func(i journal.Inference) bool { return i.Late > 0 })
		for _, text := range []string{"newer attempt", "already completed", "already timed out", "idle timeout",
			"turn is closed"} {
			late = late || r.first().logged(text)
		}
		return late
	})
}

func anyOf[T any](list []T, ok func(T) bool) bool {
	for _, v := range list {
		if ok(v) {
			return true
		}
	}
	return false
}
