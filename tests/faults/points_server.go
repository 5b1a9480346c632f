package main

import (
	"context"
	"time"
)

// crash kills the server and starts it again on the same database.
func (r *harness) crash(ctx context.Context) error {
	r.server.process.kill()
	if err := pause(ctx, time.Duration(r.rng.IntN(4))*time.Second); err != nil {
		return err
	}
	return r.server.start(ctx)
}

// servers returns the faults of Temporal's server and of many clients.
func servers() []point {
	crashes := func(name, about string, shape func(*harness), act func(context.Context, *harness) error) point {
		return point{name: name, about: about, ownServer: true, interruptions: 3, shape: shape, act: act}
	}
	return []point{
		crashes("server_call", "the server is killed in mid-call", block(once, "before"), crashInCall),
		crashes("server_inference", "the server is killed in mid-inference", hold, crashInInference),
		crashes("server_start", "the server is killed when a message was acknowledged", busy, crashAtStart),
		{name: "clients_20", about: "20 clients send the same message", shape: busy,
			act: func(ctx context.Context, r *harness) error {
				r.crowd(ctx, 20)
				return r.ask(ctx)
			}},
		{name: "clients_later", about: "a message is sent again when it was answered", shape: busy, act: sentLater},
		{name: "clients_killed", about: "20 clients send the same message and the worker dies", interruptions: 1, shape: hold,
			act: crowdAndKill},
		{name: "order", about: "the first of parallel calls ends last", shape: inOrder, act: firstEndsLast},
	}
}

func crashInCall(ctx context.Context, r *harness) error {
	if err := r.askToEvent(ctx, "begun"); err != nil {
		return err
	}
	if err := r.crash(ctx); err != nil {
		return err
	}
	return r.release()
}

func crashInInference(ctx context.Context, r *harness) error {
	if err := r.askToGate(ctx); err != nil {
		return err
	}
	r.gate.Release()
	return r.crash(ctx)
}

func crashAtStart(ctx context.Context, r *harness) error {
	before := r.user.acks.Load()
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := reach(ctx, "an acknowledgement", func() bool { return r.user.acks.Load() > before }); err != nil {
		return err
	}
	return r.crash(ctx)
}

// crowd has n clients send the target's message.
func (r *harness) crowd(ctx context.Context, n int) {
	for i := range n {
		r.converse(ctx, r.target, i%2 == 0)
	}
}

func sentLater(ctx context.Context, r *harness) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.crowd(ctx, 3)
	return nil
}

func crowdAndKill(ctx context.Context, r *harness) error {
	r.crowd(ctx, 20)
	if err := r.askToGate(ctx); err != nil {
		return err
	}
	r.first().kill()
	r.gate.Release()
	return r.heal(ctx)
}

func firstEndsLast(ctx context.Context, r *harness) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	others := len(r.target.steps[1]) - 1
	if err := reach(ctx, "the results of the others", func() bool { return r.settled(ctx, 2) >= others }); err != nil {
		return err
	}
	return r.release()
}

// inOrder gives the target a step whose first call waits for the others.
func inOrder(r *harness) {
	block(again, "before")(r)
	r.target.steps = r.target.steps[:1]
	r.target.add(3, func(int) string { return again })
	r.target.steps[1][0].block = "before"
}
