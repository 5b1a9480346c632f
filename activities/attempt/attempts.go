package attempt

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what the attempts need of a journal.DB, which documents the methods.
type Journal interface {
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error
}

// Attempts has what all attempts of a worker's activities share.
type Attempts struct {
	journal  Journal
	retryFor time.Duration // how long an activity is retried while the journal is unavailable
	running
}

// New returns the attempts of a worker whose activities retry for retryFor while the journal is unavailable.
func New(j Journal, retryFor time.Duration) *Attempts {
	return &Attempts{journal: j, retryFor: retryFor}
}

// Detach returns a context that only a stop of the turn and a shutdown of the worker cancel. The SDK also
// cancels ctx if Temporal is unreachable for a moment or has timed the attempt out. The work under way then still
// finishes and is settled in the journal, where the next attempt finds it. If a stopped turn has closed before
// Temporal could cancel the activity, the SDK reports only that the activity is not found, so Detach looks
// in the journal whether the turn was stopped. The returned function releases the context's resources.
func (a *Attempts) Detach(ctx context.Context, turnID string) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopWatching := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		switch {
		case temporal.IsCanceledError(cause), errors.Is(cause, worker.ErrWorkerShutdown):
			cancel(cause)
		case a.stopped(detached, turnID):
			cancel(temporal.NewCanceledError())
		}
	})
	return detached, func() { stopWatching(); cancel(nil) }
}

// stopped reports whether the journal has the turn as stopped by a user. While the journal cannot be read, it tries
// again every second, until ctx ends. It returns false if ctx has ended, or if the journal does not have the turn.
func (a *Attempts) stopped(ctx context.Context, turnID string) bool {
	for {
		t, err := a.journal.TurnConfig(ctx, turnID)
		if err == nil || errors.Is(err, journal.ErrNotFound) {
			return t.State == turn.StateCancelled
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// running tracks the inferences and calls that this process has under way. An attempt that starts while an earlier
// attempt of the same work still runs waits for it to end, instead of doing the work twice.
type running struct {
	mu sync.Mutex
	m  map[string]chan struct{} // by the name of the work; closed when the work ends
}

// Enter waits until no attempt holds key and takes it. The returned function releases the key. Enter fails if ctx ends
// first.
func (r *running) Enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		ended := r.take(key)
		if ended == nil {
			return func() { r.release(key) }, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes key and returns nil if key is free. Otherwise it returns a channel that is closed when key becomes free.
func (r *running) take(key string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended, ok := r.m[key]; ok {
		return ended
	}
	if r.m == nil {
		r.m = map[string]chan struct{}{}
	}
	r.m[key] = make(chan struct{})
	return nil
}

// release frees key and wakes the attempts that wait for it.
func (r *running) release(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.m[key])
	delete(r.m, key)
}

// ModelWait returns a copy of the inference's wait for its model.
func (c *Clock) ModelWait() ModelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait
}

// BeginWait records that an inference waits for its model, and returns the wait. A wait that has begun before keeps
// its time.
func (c *Clock) BeginWait(now time.Time) ModelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wait.Since.IsZero() {
		c.wait.Since = now
	}
	if c.wait.ModelSince.IsZero() {
		c.wait.ModelSince = now
	}
	return c.wait
}

// EndWait resets the wait for a fallback model that takes over. The time since the inference's first wait and the
// number of cut streams stay.
func (c *Clock) EndWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait = ModelWait{Since: c.wait.Since, CutBefore: c.wait.CutBefore + c.wait.Cuts}
}

// AddCut counts a stream that was cut, and returns how many streams of the same model were cut before it.
func (c *Clock) AddCut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Cuts++
	return c.wait.Cuts - 1
}

// AddRefusal counts a request for which the model was unavailable, and returns how many there were before.
func (c *Clock) AddRefusal() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Refusals++
	return c.wait.Refusals - 1
}

// Shown records that a waiting event has announced the next attempt for the time next.
func (c *Clock) Shown(next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait.Shown = next
}

// CountAsPause subtracts d from the working time: the time of a request that found the model unavailable.
func (c *Clock) CountAsPause(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused += d
}

// ModelWait is how long an inference has waited so far, passed from attempt to attempt.
type ModelWait struct {
	Since      time.Time `json:"since,omitzero"`       // when it began to wait
	ModelSince time.Time `json:"model_since,omitzero"` // when it began to wait for the model that it asks now
	Cuts       int       `json:"cuts,omitempty"`       // attempts of that model whose stream was cut
	CutBefore  int       `json:"cut_before,omitempty"` // attempts of earlier models whose stream was cut
	Refusals   int       `json:"refusals,omitempty"`   // requests for which that model was unavailable
	Shown      time.Time `json:"shown,omitzero"`       // the time of the next attempt that the last waiting event gave
}
