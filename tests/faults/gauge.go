package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

// The bounds of a worker that is attacked while ten sessions work. At rest it takes some 45 MB and 40 descriptors.
const (
	// An answer of a provider may have 32 MB, and several copies of it exist while it is read.
	boundResident, bombResident = 200 << 20, 400 << 20
	// Results of 32 MB are processed at the same time, with several copies of each.
	resultsResident = 450 << 20
	boundFiles      = 300
	// boundShare is the largest share of one processor in the second half of an attack, ordinary work included: by then
	// the worker must have got rid of its attacker.
	boundShare = 0.6
	// boundIdle is how soon after the attack the worker must be idle: below idleShare of one processor for idleFor.
	boundIdle, idleFor, idleShare = 5 * time.Second, time.Second, 0.2
	// boundAnswer is how long a turn of another session may take meanwhile.
	boundAnswer = time.Minute
	// enough is the resident memory at which an attack is stopped, to protect the machine.
	enough = 1500 << 20
)

// gauge samples a worker from outside.
type gauge struct {
	worker *process
	stop   context.CancelFunc
	full   chan struct{} // closed when the worker takes more than enough
	done   sync.WaitGroup

	mu      sync.Mutex
	samples []leakcheck.Sample
}

// newGauge samples the worker until read or until the worker is gone.
func newGauge(worker *process) *gauge {
	ctx, cancel := context.WithCancel(context.Background())
	g := &gauge{worker: worker, stop: cancel, full: make(chan struct{})}
	g.done.Go(func() {
		over := false
		for {
			s, err := leakcheck.Of(worker.pid())
			if err != nil {
				return
			}
			g.mu.Lock()
			g.samples = append(g.samples, s)
			g.mu.Unlock()
			if s.Resident > enough && !over {
				over = true
				close(g.full)
			}
			if pause(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	})
	return g
}

// peaks returns the most memory and descriptors that the worker has held.
func (g *gauge) peaks() (resident int64, files int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.samples {
		resident, files = max(resident, s.Resident), max(files, s.Files)
	}
	return resident, files
}

// share returns the worker's share of one processor between two times.
func (g *gauge) share(from, to time.Time) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var first, last leakcheck.Sample
	for _, s := range g.samples {
		if first.PID == 0 && !s.At.Before(from) {
			first = s
		}
		if first.PID != 0 && !s.At.After(to) {
			last = s
		}
	}
	if !last.At.After(first.At) {
		return 0
	}
	return float64(last.CPU-first.CPU) / float64(last.At.Sub(first.At))
}

// idle waits until the worker is idle, and returns how long that took.
func (g *gauge) idle(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for {
		from := time.Now()
		if err := pause(ctx, idleFor); err != nil {
			return 0, err
		}
		share := g.share(from, time.Now())
		took := time.Since(began) - idleFor
		switch {
		case g.worker.gone():
			return 0, errors.New("the worker has ended")
		case share < idleShare:
			return took, nil
		case took > boundIdle:
			return took, fmt.Errorf("%s after the attack the worker still uses %.0f %% of a processor",
				took.Round(time.Second), 100*share)
		}
	}
}

func (g *gauge) close() {
	g.stop()
	g.done.Wait()
}
