package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

// watch samples what survives a soak.
type watch struct {
	soak               *soak
	survivor, observed *process
	vitals             string // the observed worker's own report
	profiles           int    // how many it was asked for
	err                error

	worker, own, temporal, harness []leakcheck.Sample
}

func newWatch(s *soak, survivor, observed *process, file string) *watch {
	return &watch{soak: s, survivor: survivor, observed: observed, vitals: file}
}

// every is the time between two samples, and window the time of which only the lowest value counts.
func (w *watch) every() time.Duration {
	return min(5*time.Second, max(time.Second, w.soak.order.soak/360))
}

func (w *watch) window() time.Duration {
	return min(time.Minute, max(4*w.every(), w.soak.order.soak/30))
}

// warmUp is the time that no judgement includes.
func (w *watch) warmUp() time.Duration { return w.soak.order.soak / 3 }

// keep samples until ctx ends. A survivor that cannot be sampled has not survived.
func (w *watch) keep(ctx context.Context) {
	l, err := openLedger(inDir(w.soak.dir, "ledgers", "vitals.jsonl"))
	if err != nil {
		w.err = err
		return
	}
	defer l.f.Close()
	profiled := 0
	for pause(ctx, w.every()) == nil {
		if err := w.sample(l); err != nil {
			w.err = err
			return
		}
		if since := time.Since(w.soak.began); profiled == 0 && since > w.warmUp() || profiled == 1 &&
			since > w.soak.order.soak*9/10 {
			w.profile()
			profiled++
		}
	}
}

// profile asks the worker that reports on itself for a heap profile and the stacks of its goroutines. It returns the
// file for them.
func (w *watch) profile() string {
	w.profiles++
	w.observed.signal(syscall.SIGUSR1)
	return fmt.Sprintf("%s-goroutines-%d.txt", w.vitals, w.profiles)
}

func (w *watch) sample(l *ledger) error {
	worker, err := leakcheck.Of(w.survivor.pid())
	if err != nil {
		return err
	}
	own, err := leakcheck.Of(w.observed.pid())
	if err != nil {
		return err
	}
	// A starting worker has no report yet; after the warm-up a report is required.
	if err := reported(w.vitals, &own); err != nil && own.At.Sub(w.soak.began) > w.warmUp() {
		return err
	}
	w.worker, w.own = append(w.worker, worker), append(w.own, own)
	// No server runs while it is being restarted.
	if t, err := leakcheck.Of(w.soak.server.process.pid()); err == nil && t.Resident > 0 {
		w.temporal = append(w.temporal, t)
	}
	if h, err := leakcheck.Of(os.Getpid()); err == nil {
		w.harness = append(w.harness, h)
	}
	l.write(map[string]any{"worker": worker, "observed": own})
	return nil
}

// fresh bounds the age of a worker's last report on itself; it writes one every second.
const fresh = 30 * time.Second

// reported adds to a sample what the process reports about itself in a file.
func reported(file string, s *leakcheck.Sample) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("worker %d says nothing of itself: %w", s.PID, err)
	}
	if age := s.At.Sub(info.ModTime()); age > fresh {
		return fmt.Errorf("worker %d has said nothing of itself for %s", s.PID, age.Round(time.Second))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("worker %d says nothing of itself: %w", s.PID, err)
	}
	var output struct {
		Goroutines int   `json:"goroutines"`
		LiveHeap   int64 `json:"live_heap"`
	}
	if err := json.Unmarshal(b, &output); err != nil {
		return fmt.Errorf("reading what worker %d says of itself: %w", s.PID, err)
	}
	if output.Goroutines <= 0 || output.LiveHeap <= 0 {
		return fmt.Errorf("worker %d says that it has %d goroutines and %d bytes of heap", s.PID, output.Goroutines,
			output.LiveHeap)
	}
	s.Goroutines, s.LiveHeap = output.Goroutines, output.LiveHeap
	return nil
}

// measure is one figure of a process that must not grow.
type measure struct {
	process, name string
	samples       []leakcheck.Sample
	value         leakcheck.Value
	unit          float64 // in which it is printed
	// part and constant bound its growth after the warm-up: the larger of a part of its mean and a constant. Negative: it
	// is only shown.
	part, constant float64
}

const mb = 1 << 20

// measures returns what is judged. Resident memory may grow by five percent or 5 MB, which is the normal variation of a
// Go program's heap. The live heap hardly varies: by half a tenth of a MB about its line in half an hour, of which 20
// minutes and some 900 turns per worker are judged. It may grow by half a MB; a leak of 600 bytes per turn exceeds
// that. Files and goroutines come and go with the load; a leak in one of five faults, of which there are some 80 in
// that time, exceeds their bound.
func (w *watch) measures() []measure {
	resident := func(s leakcheck.Sample) float64 { return float64(s.Resident) }
	files := func(s leakcheck.Sample) float64 { return float64(s.Files) }
	threads := func(s leakcheck.Sample) float64 { return float64(s.Threads) }
	children := func(s leakcheck.Sample) float64 { return float64(s.Children) }
	goroutines := func(s leakcheck.Sample) float64 { return float64(s.Goroutines) }
	heap := func(s leakcheck.Sample) float64 { return float64(s.LiveHeap) }
	return []measure{
		{"worker", "resident MB", w.worker, resident, mb, 0.05, 5 * mb},
		{"worker", "files", w.worker, files, 1, 0.15, 6},
		{"worker", "children", w.worker, children, 1, 0, 1},
		{"worker", "threads", w.worker, threads, 1, -1, -1},
		{"observed", "resident MB", w.own, resident, mb, 0.05, 5 * mb},
		{"observed", "live heap MB", w.own, heap, mb, 0.05, mb / 2},
		{"observed", "goroutines", w.own, goroutines, 1, 0.15, 15},
		{"observed", "files", w.own, files, 1, 0.15, 6},
		{"observed", "children", w.own, children, 1, 0, 1},
		{"server", "resident MB", w.temporal, resident, mb, -1, -1},
		{"harness", "resident MB", w.harness, resident, mb, -1, -1},
	}
}

// trend returns the line through a measure, its allowed growth, and whether it stays below that.
func (w *watch) trend(m measure) (line leakcheck.Trend, allowed float64, good bool) {
	line = leakcheck.Line(leakcheck.Lows(m.samples, w.warmUp(), w.window(), m.value))
	allowed = max(m.part*line.Mean, m.constant)
	return line, allowed, allowed < 0 || line.Growth() <= allowed
}
