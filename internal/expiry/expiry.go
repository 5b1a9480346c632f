package expiry

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	lateBy = time.Second     // from this delay of a timer on, the process counts as frozen
	grace  = 2 * time.Second // to read what has arrived meanwhile
)

// Timer calls a function when its time is up.
type Timer struct {
	expired func()

	mu      sync.Mutex
	timer   *time.Timer
	due     time.Time
	stopped bool
}

// After returns a running timer.
func After(d time.Duration, expired func()) *Timer {
	t := &Timer{expired: expired, due: time.Now().Add(d)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

// Reset gives the timer another time from now on, also if it was stopped.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due, t.stopped = time.Now().Add(d), false
	t.timer.Reset(d)
}

// Stop stops the timer.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

func (t *Timer) fire() {
	t.mu.Lock()
	late := time.Since(t.due)
	early := late < 0 // it was reset while it fired
	frozen := late > lateBy
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

// WithTimeout is context.WithTimeout by a Timer. The context's cause is context.DeadlineExceeded when the time is up.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := After(d, func() { cancel(context.DeadlineExceeded) })
	return deadline{ctx, time.Now().Add(d)}, func() {
		t.Stop()
		cancel(context.Canceled)
	}
}

// deadline is a context that tells its deadline.
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
