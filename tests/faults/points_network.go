package main

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
)

// outages are how long the network is away, by increasing trouble: within a heartbeat, around it, past it.
var outages = []time.Duration{time.Second, 3 * time.Second, 8 * time.Second}

func (r *harness) outage() time.Duration { return outages[r.rng.IntN(len(outages))] }

// spell does something to a link for a while.
type spell func(ctx context.Context, r *harness, l *link, d time.Duration) error

// down takes the link away.
func down(ctx context.Context, _ *harness, l *link, d time.Duration) error {
	l.down()
	err := pause(ctx, d)
	return errors.Join(err, l.up())
}

// poison puts a toxic on the link in both directions.
func poison(kind string, attributes map[string]any) spell {
	return func(ctx context.Context, _ *harness, l *link, d time.Duration) error {
		var removes []func() error
		for _, stream := range []string{"upstream", "downstream"} {
			remove, err := l.toxic(kind, stream, attributes)
			if err != nil {
				return err
			}
			removes = append(removes, remove)
		}
		err := pause(ctx, d)
		for _, remove := range removes {
			err = errors.Join(err, remove())
		}
		return err
	}
}

var (
	blackHole = poison("timeout", map[string]any{"timeout": 0})
	resets    = poison("reset_peer", map[string]any{"timeout": 0})
)

// severed breaks a link of the worker in the middle of a call or inference, for an outage or the given time. What was
// held continues meanwhile.
func severed(name, about string, which func(*harness) *link, s spell, inCall bool, long ...time.Duration) point {
	p := point{name: name, about: about, interruptions: 3, shape: hold}
	reached, release := (*harness).askToGate, (*harness).openGate
	if inCall {
		p.shape, release = block(once, "before"), (*harness).release
		reached = func(r *harness, ctx context.Context) error { return r.askToEvent(ctx, "begun") }
	}
	p.act = func(ctx context.Context, r *harness) error {
		if err := reached(r, ctx); err != nil {
			return err
		}
		done := make(chan error, 1)
		d := append(long, r.outage())[0]
		go func() { done <- s(ctx, r, which(r), d) }()
		if err := pause(ctx, d/2); err != nil {
			return err
		}
		if err := release(r); err != nil {
			return err
		}
		return <-done
	}
	return p
}

// ill makes a point with a toxic on a link from before the target is asked until it is answered.
func ill(name, about string, which func(*harness) *link, kind string, attributes map[string]any) point {
	return point{name: name, about: about, interruptions: 3, shape: busy, act: func(ctx context.Context, r *harness) error {
		for _, stream := range []string{"upstream", "downstream"} {
			remove, err := which(r).toxic(kind, stream, attributes)
			if err != nil {
				return err
			}
			defer func() { _ = remove() }() // the link is closed with the harness at the latest
		}
		if err := r.ask(ctx); err != nil {
			return err
		}
		return r.settle()
	}}
}

func toServer(r *harness) *link   { return r.temporal }
func fromClient(r *harness) *link { return r.users }
func toProvider(r *harness) *link { return r.provider }

var (
	slow     = map[string]any{"latency": 250, "jitter": 150}
	inSlices = map[string]any{"average_size": 200, "size_variation": 150, "delay": 500}
)

// network returns the faults of links.
func network() []point {
	minute := severed("net_down_minute", "worker–server is down for a minute in mid-call", toServer, down, true,
		time.Minute)
	minute.long = true
	return []point{
		minute,
		severed("net_down_call", "worker–server is down in mid-call", toServer, down, true),
		severed("net_down_inference", "worker–server is down in mid-inference", toServer, down, false),
		severed("net_hole_call", "worker–server swallows everything in mid-call", toServer, blackHole, true),
		severed("net_hole_infer", "worker–server swallows everything in mid-inference", toServer, blackHole, false),
		severed("net_reset", "worker–server is reset again and again in mid-inference", toServer, resets, false),
		ill("net_slow", "worker–server has latency and jitter", toServer, "latency", slow),
		ill("net_sliced", "worker–server comes in slices", toServer, "slicer", inSlices),
		ill("client_slow", "client–server has latency and jitter", fromClient, "latency", slow),
		ill("client_sliced", "client–server comes in slices", fromClient, "slicer", inSlices),
		ill("provider_slow", "worker–provider has latency and jitter", toProvider, "latency", slow),
		ill("provider_sliced", "worker–provider comes in slices", toProvider, "slicer", inSlices),
		{name: "client_lost", about: "the server's answers to the client are lost", interruptions: 0, shape: busy,
			act: answersLost},
		{name: "client_down", about: "client–server is down", interruptions: 0, shape: busy, act: clientDown},
		providerGone("provider_down", "worker–provider is down in mid-answer", down),
		providerGone("provider_hole", "worker–provider swallows everything in mid-answer", blackHole),
		providerGone("provider_reset", "worker–provider is reset in mid-answer", resets),
	}
}

// answersLost lets the client's requests through and none of the answers, until the turn has started.
func answersLost(ctx context.Context, r *harness) error {
	remove, err := r.users.toxic("timeout", "downstream", map[string]any{"timeout": 0})
	if err != nil {
		return err
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := reach(ctx, "the turn that the client does not know of",
		func() bool { return r.turnID(ctx) != "" }); err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	r.users.down()
	return r.users.up()
}

// clientDown takes the server away from the client until it has noticed.
func clientDown(ctx context.Context, r *harness) error {
	r.users.down()
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := reach(ctx, "a request of the client that failed",
		func() bool { return r.user.failures.Load() > 0 }); err != nil {
		return err
	}
	return r.users.up()
}

// providerGone breaks the link to the provider while its answer is held, and restores it when the journal has counted a
// failure.
func providerGone(name, about string, s spell) point {
	return point{name: name, about: about, shape: hold, act: func(ctx context.Context, r *harness) error {
		if err := r.askToGate(ctx); err != nil {
			return err
		}
		broken, mend := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s(broken, r, r.provider, within) }()
		failed := reach(ctx, "a failure that is counted", func() bool {
			list, err := r.journal.Inferences(ctx, r.turnID(ctx))
			return err == nil && anyOf(list, func(i journal.Inference) bool { return i.Failures > 0 })
		})
		r.gate.Release()
		mend()
		<-done // it ends because the link is restored
		return failed
	}}
}
