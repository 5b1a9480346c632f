package inference

import (
	"context"
	"sync"
	"time"
)

// phaseTimer enforces the deadlines of a request's phases: connecting, waiting for the first token, streaming. A new
// phase ends the one before. If a phase takes too long, the request's context is cancelled with the phase's cause.
type phaseTimer struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	phase    int // counts the phases, so that a late timer of an earlier phase does nothing
	limit    time.Duration
	restarts bool // each byte that arrives restarts the current phase's time
	stopped  bool
}

// startPhaseTimer returns a phaseTimer without a phase, and the context that it cancels, which is derived from ctx.
func startPhaseTimer(ctx context.Context) (context.Context, *phaseTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &phaseTimer{cancel: cancel}
}

// beginIdlePhase begins a phase in which at most d may pass without a byte from the provider.
func (w *phaseTimer) beginIdlePhase(d time.Duration, cause error) { w.begin(d, cause, true) }

// beginFixedPhase begins a phase that may take d in all. Bytes such as keep-alives do not extend it.
func (w *phaseTimer) beginFixedPhase(d time.Duration, cause error) { w.begin(d, cause, false) }

// begin begins a phase, unless the timer is stopped.
func (w *phaseTimer) begin(d time.Duration, cause error, restarts bool) {
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
	w.limit, w.restarts = d, restarts
	w.timer = time.AfterFunc(d, func() { w.expire(phase, cause) })
}

// expire cancels the context with the cause, unless the phase is over.
func (w *phaseTimer) expire(phase int, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if phase == w.phase {
		w.cancel(cause)
	}
}

// bytesArrived restarts the time of an idle phase. The body's reader calls it when bytes arrive.
func (w *phaseTimer) bytesArrived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.restarts && w.timer.Stop() { // an expired timer is not restarted
		w.timer.Reset(w.limit)
	}
}

// stop ends the current phase and cancels the context. No later phase begins.
func (w *phaseTimer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase++
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}
