package main

import (
	"context"

	"github.com/everturn/everturn/journal"
)

// zombies are workers that are stopped past their timeouts and come back when others have done their work.
func zombies() []point {
	return []point{
		{
			name: "zombie_call", about: "it comes back with a result", interruptions: 1, shape: block(once, "after"),
			act: func(ctx context.Context, r *rig) error {
				if err := r.ask(ctx); err != nil {
					return err
				}
				if err := r.noted(ctx, "effect", r.blocked().key); err != nil {
					return err
				}
				return r.undead(ctx, r.release, r.lateResult)
			},
		},
		{
			name: "zombie_inference", about: "it comes back with an answer", interruptions: 1, shape: hold,
			act: func(ctx context.Context, r *rig) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				release := func() error { r.gate.Release(); return nil }
				return r.undead(ctx, release, func(ctx context.Context) error {
					return reach(ctx, "the zombie's word", func() bool { return r.first().said("a newer attempt") || r.lateAnswer(ctx) })
				})
			},
		},
	}
}

// undead stops the first worker, lets another one end the target, and brings the first one back.
func (r *rig) undead(ctx context.Context, release func() error, back func(context.Context) error) error {
	r.freeze()
	if err := r.heal(ctx); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	r.thaw()
	return back(ctx)
}

// lateResult waits until the journal has kept a result that came too late.
func (r *rig) lateResult(ctx context.Context) error {
	return reach(ctx, "the zombie's result", func() bool {
		calls, err := r.store.Calls(ctx, r.turnID(ctx))
		return err == nil && anyOf(calls, func(c journal.CallRecord) bool { return c.LateCount > 0 })
	})
}

// lateAnswer reports whether the journal has counted an answer that came too late.
func (r *rig) lateAnswer(ctx context.Context) bool {
	list, err := r.store.Inferences(ctx, r.turnID(ctx))
	return err == nil && anyOf(list, func(i journal.Inference) bool { return i.Late > 0 })
}

func anyOf[T any](list []T, ok func(T) bool) bool {
	for _, v := range list {
		if ok(v) {
			return true
		}
	}
	return false
}
