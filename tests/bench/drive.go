package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
)

// within bounds one turn. It decides nothing: a turn that takes this long has failed.
const within = 3 * time.Minute

// warm is how many turns a worker has behind it before it is measured.
const warm = 5

// meter collects an arm's measures.
type meter struct {
	*subject
	next      int
	latencies []time.Duration
	elapsed   time.Duration
	worker    time.Duration // CPU
	server    time.Duration // CPU
	errs      []error
}

// run measures a scenario.
func (r *rig) run(ctx context.Context, sc scenario) (_ []report.Measure, err error) {
	fmt.Fprintf(r.progress, "%s", sc.name)
	began := time.Now()
	p, err := r.provider(ctx, "provider")
	if err != nil {
		return nil, err
	}
	defer func() { err = join(err, p.Stop()) }()
	var meters []*meter
	defer func() {
		for _, m := range meters {
			err = join(err, m.subject.worker.Stop())
		}
	}()
	for _, a := range sc.arms {
		s, err := r.subject(sc, a, p)
		if err != nil {
			return nil, err
		}
		meters = append(meters, &meter{subject: s})
	}
	if err := r.interleave(ctx, sc, meters); err != nil {
		return nil, err
	}
	out, err := r.measures(ctx, sc, meters, p)
	fmt.Fprintf(r.progress, ", %s\n", time.Since(began).Round(time.Second))
	return out, err
}

// interleave gives the arms their turns in blocks, one arm at a time.
func (r *rig) interleave(ctx context.Context, sc scenario, meters []*meter) error {
	for _, m := range meters {
		for range warm {
			if _, err := m.one(ctx, sc.spec, m.take()); err != nil {
				return fmt.Errorf("warming up %s: %w; its log says: %s", m, err, m.subject.worker.Tail())
			}
		}
	}
	for done := 0; done < sc.turns; done += sc.block {
		for _, m := range meters {
			if err := m.block(ctx, sc, min(sc.block, sc.turns-done)); err != nil {
				return err
			}
		}
		fmt.Fprint(r.progress, ".")
	}
	return nil
}

func (m *meter) take() int {
	m.next++
	return m.next
}

// one runs a turn to its end.
func (m *meter) one(ctx context.Context, sp spec, i int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	run, err := m.start(ctx, i, sp)
	if err == nil {
		err = run.Get(ctx, nil)
	}
	return time.Since(began), err
}

// block runs n turns, so many in flight, and books what they took.
func (m *meter) block(ctx context.Context, sc scenario, n int) error {
	worker, server, err := m.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ids := make(chan int, n)
	for range n {
		ids <- m.take()
	}
	close(ids)
	for range min(sc.inFlight, n) {
		wg.Go(func() {
			for i := range ids {
				took, err := m.one(ctx, sc.spec, i)
				mu.Lock()
				if err != nil {
					m.errs = append(m.errs, err)
				} else {
					m.latencies = append(m.latencies, took)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	m.elapsed += time.Since(began)
	worker2, server2, err := m.cpu()
	m.worker, m.server = m.worker+worker2-worker, m.server+server2-server
	return err
}

func (m *meter) cpu() (worker, server time.Duration, err error) {
	if worker, err = proc.CPU(m.subject.worker.PID()); err != nil {
		return 0, 0, err
	}
	server, err = proc.CPU(m.rig.serverPID)
	return worker, server, err
}
