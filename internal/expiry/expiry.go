package expiry

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	frozenAfter = time.Second     // if a timer fires later than this after its time, the process was frozen
	grace       = 2 * time.Second // the time to read what arrived while the process was frozen
)

// Timer calls a function when its time is over. If the process was frozen at that time, Timer waits a moment longer.
type Timer struct {
	expired func()

	mu      sync.Mutex
	timer   *time.Timer
	due     time.Time
	stopped bool
}

// After returns a running timer that calls expired in its own goroutine after d.
func After(d time.Duration, expired func()) *Timer {
	t := &Timer{expired: expired, due: time.Now().Add(d)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

// Reset makes the timer expire d from now. It also restarts a timer that was stopped or has expired.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due, t.stopped = time.Now().Add(d), false
	t.timer.Reset(d)
}

// Stop stops the timer. A call of the function that has begun continues.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

// fire runs when the underlying timer fires. It calls expired, unless the timer was stopped or reset meanwhile, or
// fired so late that it gets the grace period first.
func (t *Timer) fire() {
	t.mu.Lock()
	late := time.Since(t.due)
	early := late < 0 // Reset was called while the underlying timer fired
	frozen := late > frozenAfter
	if frozen && !t.stopped {
		t.due = time.Now().Add(grace)
		t.timer.Reset(grace)
	}
	over := !t.stopped && !early && !frozen
	t.mu.Unlock()
	if over {
		t.expired()
	}
}

// WithTimeout is context.WithTimeout with a Timer. When the time is over, the context's error and cause are
// context.DeadlineExceeded.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := After(d, func() { cancel(context.DeadlineExceeded) })
	return deadline{ctx, time.Now().Add(d)}, func() {
		t.Stop()
		cancel(context.Canceled)
	}
}

// deadline is a context that was derived with WithTimeout. It reports the deadline at, as a context of the standard
// library would.
type deadline struct {
	context.Context
	at time.Time
}

// Deadline implements context.Context.
func (d deadline) Deadline() (time.Time, bool) {
	if outer, ok := d.Context.Deadline(); ok && outer.Before(d.at) {
		return outer, true
	}
	return d.at, true
}

// Err implements context.Context.
func (d deadline) Err() error {
	if err := d.Context.Err(); err == nil || !errors.Is(context.Cause(d.Context), context.DeadlineExceeded) {
		return err
	}
	return context.DeadlineExceeded
}
