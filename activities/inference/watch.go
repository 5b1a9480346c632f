package inference

import (
	"context"
	"sync"
	"time"
)

// watch holds the deadline of a request's current phase. There is one phase at a time, each with its own cause.
type watch struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	phase int // a late timer of an earlier phase does nothing
	limit time.Duration
	// restarts phases restart their time with each byte; the wait for the first token does not.
	restarts bool
	stopped  bool
}

// startWatch derives a context that ends with a phase's cause if the phase takes too long.
func startWatch(ctx context.Context) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{cancel: cancel}
}

// expect begins a phase that may take d, restarted by each byte that arrives.
func (w *watch) expect(d time.Duration, cause error) { w.begin(d, cause, true) }

// expectWithin begins a phase that may take d in all: keep-alives do not extend it.
func (w *watch) expectWithin(d time.Duration, cause error) { w.begin(d, cause, false) }

func (w *watch) begin(d time.Duration, cause error, lenient bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.phase++
	phase := w.phase
	w.limit, w.restarts = d, lenient
	w.timer = time.AfterFunc(d, func() { w.fire(phase, cause) })
}

func (w *watch) fire(phase int, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if phase == w.phase {
		w.cancel(cause)
	}
}

// alive restarts the time of a lenient phase. The body's reader calls it when bytes arrive.
func (w *watch) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.restarts && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase++
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}
