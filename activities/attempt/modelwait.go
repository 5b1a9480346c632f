package attempt

import "time"

// ModelWait returns a copy of the inference's wait for its model.
func (c *Clock) ModelWait() ModelWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait
}

// BeginWait records that an inference waits for its model, and returns the wait. If the inference waits already, the
// beginning of its wait stays.
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
