package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/tests/faults/vitals"
)

// rest is what the survivors hold while nothing is under way. Under load goroutines and files come and go, and a few that
// are left over for ever hide in that; at rest nothing hides them.
type rest struct{ worker, observed vitals.Sample }

const (
	// restLooks and restEvery make a rest: the lowest of so many samples counts.
	restLooks, restEvery = 5, time.Second
	// restGoroutines and restFiles are what a survivor may have more after the soak than before it: the three or four
	// connections to the provider that HTTP keeps for a while, with two goroutines each, and the journal's for readers.
	restGoroutines, restFiles = 10, 6
)

// look samples the survivors at rest. The one that reports on itself may still have to begin with it.
func (w *watch) look(ctx context.Context) (r rest, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for n := 0; n < restLooks; {
		if perr := pause(ctx, restEvery); perr != nil {
			return r, fmt.Errorf("looking at the survivors at rest: %w", errors.Join(err, perr))
		}
		var now rest
		if now.worker, err = vitals.Of(w.survivor.pid()); err != nil {
			return r, err
		}
		if now.observed, err = vitals.Of(w.observed.pid()); err != nil {
			return r, err
		}
		if err = reported(w.vitals, &now.observed); err != nil {
			continue
		}
		if n == 0 {
			r = now
		}
		r.worker.Files = min(r.worker.Files, now.worker.Files)
		r.observed.Files = min(r.observed.Files, now.observed.Files)
		r.observed.Goroutines = min(r.observed.Goroutines, now.observed.Goroutines)
		n++
	}
	return r, nil
}

// rests prints what the survivors held before and after the soak and returns whether that is as much as it should be.
func rests(out io.Writer, before, after rest) bool {
	fmt.Fprintf(out, "\nat rest, with nothing under way\n%-10s %-14s %10s %10s %10s  %s\n", "process", "", "before", "after", "allowed", "verdict")
	good := true
	for _, m := range []struct {
		process, name         string
		before, after, growth int
	}{
		{"worker", "files", before.worker.Files, after.worker.Files, restFiles},
		{"observed", "files", before.observed.Files, after.observed.Files, restFiles},
		{"observed", "goroutines", before.observed.Goroutines, after.observed.Goroutines, restGoroutines},
	} {
		verdict := "all gone"
		switch {
		case m.after == 0:
			verdict, good = "NOT SEEN", false
		case m.after > m.before+m.growth:
			verdict, good = "LEFT OVER", false
		}
		fmt.Fprintf(out, "%-10s %-14s %10d %10d %10d  %s\n", m.process, m.name, m.before, m.after, m.before+m.growth, verdict)
	}
	return good
}
