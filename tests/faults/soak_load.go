package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// load is what the sessions of a soak do.
type load struct {
	soak     *soak
	sessions sync.WaitGroup
	stops    sync.WaitGroup
	cancel   context.CancelFunc

	mu    sync.Mutex
	errs  []error
	took  []time.Duration // from a message to its answer
	kinds map[string]int
	heard map[string]bool // acknowledged messages
}

// manner is how a turn of a soak is sent and followed.
type manner struct {
	kind    string
	clients int           // that send the message at once
	again   bool          // it is sent once more after it was answered
	stop    time.Duration // after which the operator stops it; 0: it is not stopped
}

// begin starts the sessions. Their turns continue to their end when living ends.
func (l *load) begin(ctx, living context.Context) {
	l.kinds, l.heard = map[string]int{}, map[string]bool{}
	ctx, l.cancel = context.WithCancel(ctx)
	for n := range l.soak.order.sessions {
		l.sessions.Go(func() {
			if err := l.live(ctx, living, fmt.Sprintf("%s-s%03d", filepath.Base(l.soak.dir), n)); err != nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.errs = append(l.errs, err)
			}
		})
	}
}

// wait waits for the last turns, and abandons them after the patience.
func (l *load) wait(patience time.Duration) error {
	limit := time.AfterFunc(patience, l.cancel)
	l.sessions.Wait()
	limit.Stop()
	l.cancel()
	l.stops.Wait()
	return errors.Join(l.errs...)
}

// live runs one session: one message after the other, and before each a pause.
func (l *load) live(ctx, living context.Context, session string) error {
	rng := seeded(l.soak.seed, session)
	think := time.Duration(rng.Float64() * float64(l.soak.order.think)) // the first ones come one by one
	for n := 1; pause(living, think) == nil; n++ {
		t, m := soakTurn(rng, session, n)
		if err := l.converse(ctx, l.soak.plan(t), m, rng.IntN(2) == 0); err != nil {
			return fmt.Errorf("message %s: %w", t.id, err)
		}
		think = time.Duration((0.5 + rng.Float64()) * float64(l.soak.order.think))
	}
	return nil
}

// soakTurn makes a turn: most are plain; some have slow answers, are sent by several clients at once, are sent again,
// or are stopped before they end.
func soakTurn(rng *rand.Rand, session string, n int) (turnPlan, manner) {
	t := randomTurn(rng, session, n)
	for _, step := range t.steps {
		for i := range step {
			if strings.HasSuffix(step[i].tool, "_append") && rng.IntN(3) == 0 {
				step[i].take = rng.IntN(1200) // so that faults come in the middle of calls, too
			}
		}
	}
	m := manner{kind: "plain", clients: 1}
	switch roll := rng.IntN(100); {
	case roll < 15:
		m.kind, t.pace = "slow", time.Duration(20+rng.IntN(130))*time.Millisecond
	case roll < 25:
		m.kind, m.clients = "by several clients", 2+rng.IntN(3)
	case roll < 32:
		m.kind, m.again = "sent again later", true
	case roll < 42:
		m.kind, t.pace = "stopped", 100*time.Millisecond
		m.stop = time.Duration(1+rng.IntN(1500)) * time.Millisecond
	}
	t.stop = m.stop
	return t, m
}

// converse runs one turn.
func (l *load) converse(ctx context.Context, t *turnPlan, m manner, byUpdate bool) error {
	began := time.Now()
	results := make(chan error, m.clients)
	for i := range m.clients {
		go func() { results <- l.soak.user.send(ctx, *t, byUpdate == (i%2 == 0)) }()
	}
	var err error
	for range m.clients {
		err = errors.Join(err, <-results)
	}
	l.mu.Lock()
	l.kinds[m.kind]++
	l.took = append(l.took, time.Since(began))
	l.mu.Unlock()
	if err == nil && m.again {
		err = l.soak.user.send(ctx, *t, !byUpdate)
	}
	return err
}

// listen follows every turn live, and stops those that are to be stopped.
func (l *load) listen() {
	follow := l.soak.user.acknowledged
	l.soak.user.acknowledged = func(t turnPlan, run string) {
		follow(t, run)
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.stop > 0 && !l.heard[t.id] {
			l.heard[t.id] = true
			l.soak.stopped = append(l.soak.stopped, t.id)
			l.stops.Go(func() {
				_ = pause(context.Background(), t.stop)
				// The turn may have ended by now, or the server may be away: then the turn is not stopped.
				_ = l.soak.direct.CancelWorkflow(context.Background(), t.session, run)
			})
		}
	}
}

// quantile returns the time within which that share of the turns was answered.
func (l *load) quantile(part float64) time.Duration {
	return quantile(slices.Sorted(slices.Values(l.took)), part)
}

// quantile returns the value below which this part of the sorted durations lies.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
