package main

import (
	"context"
	"errors"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// stops makes a point at which the operator stops the target and the worker dies before it can obey.
func stops(name, about string, shape func(*harness), reached func(*harness, context.Context) error,
	release func(*harness) error) point {
	return point{name: name, about: about, interruptions: 1, shape: shape, act: func(ctx context.Context, r *harness) error {
		if err := reached(r, ctx); err != nil {
			return err
		}
		r.stopped = append(r.stopped, r.target.id)
		if err := r.direct.CancelWorkflow(ctx, r.target.session, ""); err != nil {
			return err
		}
		r.first().kill()
		if err := release(r); err != nil {
			return err
		}
		return r.heal(ctx)
	}}
}

// cancels returns the points at which a turn is stopped. Cancellation is an answer, too: there is exactly one, and
// every client gets the same.
func cancels() []point {
	inCall := func(event string) func(*harness, context.Context) error {
		return func(r *harness, ctx context.Context) error { return r.askToEvent(ctx, event) }
	}
	return []point{
		{name: "cancel_queued", about: "the turn is stopped before any worker has seen it", shape: busy, act: stopQueued},
		stops("cancel_inference", "the turn is stopped in mid-inference and the worker dies", hold, (*harness).askToGate,
			(*harness).openGate),
		{name: "cancel_shown", about: "the turn is stopped after a part of its answer was shown, and then the worker dies",
			interruptions: 1, shape: hold, act: stopShown},
		stops("cancel_begun", "the turn is stopped before a call's effect and the worker dies", block(once, "before"),
			inCall("begun"), (*harness).release),
		stops("cancel_effect", "the turn is stopped after a call's effect and the worker dies", block(once, "after"),
			inCall("effect"), (*harness).release),
		stops("cancel_quick", "the turn is stopped during a quick call and the worker dies", block(quick, "before"),
			inCall("begun"), (*harness).release),
	}
}

// askToText asks the target and waits until a part of its last answer is in the stream.
func (r *harness) askToText(ctx context.Context) error {
	if err := r.askToGate(ctx); err != nil {
		return err
	}
	return reach(ctx, "the beginning of the last answer", func() bool {
		events, err := r.journal.Events(ctx, r.turnID(ctx), -1, 10_000)
		return err == nil && slices.ContainsFunc(events, func(e turn.Event) bool {
			return e.Kind == turn.EventTextDelta && e.Step == len(r.target.steps)+1
		})
	})
}

// stopShown stops the target in the middle of its last answer. The worker dies before it can record what it has used.
func stopShown(ctx context.Context, r *harness) error {
	if err := r.askToText(ctx); err != nil {
		return err
	}
	r.stopped = append(r.stopped, r.target.id)
	if err := r.direct.CancelWorkflow(ctx, r.target.session, ""); err != nil {
		return err
	}
	if err := reach(ctx, "the end of the turn", func() bool { return r.over(ctx, r.target) }); err != nil {
		return err
	}
	r.first().kill()
	return errors.Join(r.openGate(), r.heal(ctx))
}

// stopQueued stops a turn that is acknowledged while no worker runs.
func stopQueued(ctx context.Context, r *harness) error {
	r.first().kill()
	before := r.user.acks.Load()
	r.converse(ctx, r.target, false)
	if err := reach(ctx, "an acknowledgement", func() bool { return r.user.acks.Load() > before }); err != nil {
		return err
	}
	r.stopped = append(r.stopped, r.target.id)
	return errors.Join(r.direct.CancelWorkflow(ctx, r.target.session, ""), r.heal(ctx))
}
