package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	stormSessions = 6
	stormTurns    = 3
	stormFaults   = 4
)

// storms returns the points with many sessions at once and one fault after the other.
func storms() []point {
	return []point{
		{name: "storm", about: "many sessions; workers, tools and links go one after the other",
			interruptions: 3 * stormFaults, shape: busy, act: storm},
	}
}

// storm runs three turns in each of six sessions and strikes whenever the tool's ledger has grown by a random number of
// effects.
func storm(ctx context.Context, r *harness) error {
	for i := range stormSessions {
		var turns []*turnPlan
		for n := range stormTurns {
			t := randomTurn(r.rng, fmt.Sprintf("%s-s%d", r.target.session, i), n+1)
			t.add(1+r.rng.IntN(3), func(int) string { return tools[r.rng.IntN(3)] })
			turns = append(turns, r.plan(t))
		}
		r.converseAll(ctx, turns)
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	for range stormFaults {
		if err := r.grown(ctx, 2+r.rng.IntN(6)); err != nil {
			return err
		}
		if err := r.strike(ctx); err != nil {
			return err
		}
	}
	return nil
}

// converseAll sends the messages of one session, each after the previous one was answered.
func (r *harness) converseAll(ctx context.Context, turns []*turnPlan) {
	r.asking++
	byUpdate := r.rng.IntN(2) == 0
	go func() {
		for _, t := range turns {
			if err := r.user.send(ctx, *t, byUpdate); err != nil {
				r.asked <- fmt.Errorf("message %s: %w", t.id, err)
				return
			}
		}
		r.asked <- nil
	}()
}

// grown waits for n more effects.
func (r *harness) grown(ctx context.Context, n int) error {
	effects := func() int {
		b, _ := os.ReadFile(r.toolLedger()) // it may not be there yet
		return bytes.Count(b, []byte(`"event":"effect"`))
	}
	before := effects()
	return reach(ctx, fmt.Sprintf("%d more effects", n), func() bool { return effects() >= before+n })
}

// strike breaks one thing and restores it.
func (r *harness) strike(ctx context.Context) error {
	last := r.workers[len(r.workers)-1]
	switch r.rng.IntN(4) {
	case 0:
		return down(ctx, r, r.temporal, time.Second)
	case 1:
		pid, err := r.mcpServer([]string{"once", "again", "quick"}[r.rng.IntN(3)])
		if err != nil {
			return err
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with its worker
		return nil
	default:
		last.kill()
		return r.heal(ctx)
	}
}
