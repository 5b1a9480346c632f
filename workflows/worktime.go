package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// The working time of a step is the time in which at least one of its calls worked, so that calls that run at the same
// time count once, and calls that run one after the other count each. run.worked is a clock of it: an attempt begins at
// the time that the clock shows, and when it ends the clock shows at least its beginning plus the time that it worked,
// as its activity measured it.

// addWork records that an attempt has worked for the time busy since the clock showed began. It returns busy.
func (r *run) addWork(began, busy time.Duration) time.Duration {
	r.worked = max(r.worked, began+busy)
	return busy
}

// workedSoFar returns the turn's counters with the working time of the current step.
func (r *run) workedSoFar() turn.Counters {
	c := r.progress.Counters
	c.Busy += r.worked
	return c
}

// checkTime returns an error if the turn has no time left for a call that has not begun.
func (r *run) checkTime(c *callState) error {
	exceeded := turn.CheckCallLimits(r.progress.Config.Limits, r.workedSoFar(), 0)
	if exceeded == nil || c.attempt > 0 {
		return nil
	}
	return temporal.NewApplicationError("not run: "+exceeded.Message, string(turn.CodeLimitExceeded))
}
