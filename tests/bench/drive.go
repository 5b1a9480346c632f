package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
)

// within bounds one turn: a turn that takes longer has failed. It does not affect the figures.
const within = 3 * time.Minute

// warmUp is the number of turns that a worker runs before it is measured.
const warmUp = 3

// meter collects an arm's measures.
type meter struct {
	*subject
	next      int // number of the last turn
	latencies []time.Duration
	elapsed   time.Duration
	cpuWorker time.Duration
	cpuServer time.Duration
	errs      []error
	doom      string // how an arm that cannot complete the scenario failed
	rows      journalSize
}

// run measures a scenario.
func (r *harness) run(ctx context.Context, sc scenario) (_ report.Part, err error) {
	fmt.Fprintf(r.progress, "%s ", sc.name)
	began := time.Now()
	p, err := r.provider(ctx)
	if err != nil {
		return report.Part{}, err
	}
	defer func() { err = join(err, p.Stop()) }()
	var meters []*meter
	defer func() { err = join(err, stopAll(meters)) }()
	for _, a := range sc.arms {
		s, err := r.subject(ctx, sc, a, p)
		if err != nil {
			return report.Part{}, err
		}
		meters = append(meters, &meter{subject: s})
	}
	before, err := r.prepare(ctx, sc, meters, p)
	if err != nil {
		return report.Part{}, err
	}
	if err := r.interleave(ctx, sc, meters); err != nil {
		return report.Part{}, err
	}
	part, err := r.part(ctx, sc, meters, p, before)
	fmt.Fprintf(r.progress, " %s\n", time.Since(began).Round(time.Second))
	return part, err
}

// stopAll stops the arms' workers in parallel, because each stop takes a while.
func stopAll(meters []*meter) error {
	var all []*proc.Process
	for _, m := range meters {
		all = append(all, m.workers...)
	}
	return each(len(all), len(all), func(i int) error { return all[i].Stop() })
}

// prepare warms the arms up and returns the provider's tallies at that point.
func (r *harness) prepare(ctx context.Context, sc scenario, meters []*meter, p *provider) (map[string]tally, error) {
	for _, m := range meters {
		if err := m.prepare(ctx, sc); err != nil {
			return nil, err
		}
	}
	return p.tallies(ctx)
}

// interleave runs the arms in blocks, one arm at a time. The order is reversed every round, so that the work that the
// server still does for one arm's turns is not always charged to the same other arm.
func (r *harness) interleave(ctx context.Context, sc scenario, meters []*meter) error {
	meters = slices.Clone(meters)
	for done := 0; done < sc.turns; done += sc.block {
		for _, m := range meters {
			if m.doom != "" {
				continue
			}
			if err := m.block(ctx, sc, min(sc.block, sc.turns-done)); err != nil {
				return err
			}
		}
		fmt.Fprint(r.progress, ".")
		slices.Reverse(meters)
	}
	return nil
}

// prepare warms up an arm's worker, or records how an arm that cannot complete the scenario fails.
func (m *meter) prepare(ctx context.Context, sc scenario) error {
	if slices.Contains(sc.doomed, m.arm) {
		if _, err := m.one(ctx, sc.spec, m.take()); err != nil {
			m.doom = err.Error()
			return nil
		}
	}
	short := sc.spec
	short.Hops, short.Slow = min(short.Hops, 2), false
	for range min(warmUp, sc.turns) {
		if _, err := m.one(ctx, short, m.take()); err != nil {
			return fmt.Errorf("warming up %s: %w; its log says: %s", m, err, m.workers[0].Tail())
		}
	}
	return m.count(ctx, &m.rows)
}

func (m *meter) take() int {
	m.next++
	return m.next
}

// block runs n turns, sc.inFlight of them in parallel, and records their latencies.
func (m *meter) block(ctx context.Context, sc scenario, n int) error {
	worker, server, err := m.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	ids := make(chan int, n)
	for range n {
		ids <- m.take()
	}
	close(ids)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(sc.inFlight, n) {
		wg.Go(func() {
			for i := range ids {
				took, err := m.one(ctx, sc.spec, i)
				mu.Lock()
				m.book(took, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	m.elapsed += time.Since(began)
	worker2, server2, err := m.cpu()
	m.cpuWorker, m.cpuServer = m.cpuWorker+worker2-worker, m.cpuServer+server2-server
	return err
}

func (m *meter) book(took time.Duration, err error) {
	if err != nil {
		m.errs = append(m.errs, err)
		return
	}
	m.latencies = append(m.latencies, took)
}

// cpu returns the CPU time of the arm's workers together, and of the Temporal server.
func (m *meter) cpu() (workers, server time.Duration, err error) {
	for _, w := range m.workers {
		one, err := proc.CPU(w.PID())
		if err != nil {
			return 0, 0, err
		}
		workers += one
	}
	server, err = proc.CPU(m.harness.serverPID)
	return workers, server, err
}
