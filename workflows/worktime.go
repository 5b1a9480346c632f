package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// The working time of a step is the time in which at least one of its calls works: parallel calls count once, and
// sequential calls add up. run.worked measures it like a clock. When an attempt starts, the workflow notes the clock's
// time. When the attempt ends, the clock is advanced, if necessary, to that time plus the working time that the
// activity has measured. The workflow cannot use its own time, because it includes time without a running worker.

// addWork advances run.worked to began+busy, if it is less. began was its value when the attempt started, and busy is
// the attempt's working time, which addWork returns.
func (r *run) addWork(began, busy time.Duration) time.Duration {
	r.worked = max(r.worked, began+busy)
	return busy
}

// workedSoFar returns the turn's counters including the working time of the current step so far.
func (r *run) workedSoFar() turn.Counters {
	c := r.progress.Counters
	c.Busy += r.worked
	return c
}

// checkTime returns an error if the turn's limits leave no time for a call. A call that has had an attempt may
// continue.
func (r *run) checkTime(c *callState) error {
	exceeded := turn.CheckCallLimits(r.progress.Config.Limits, r.workedSoFar(), 0)
	if exceeded == nil || c.Attempt > 0 {
		return nil
	}
	return temporal.NewApplicationError("not run: "+exceeded.Message, string(turn.CodeLimitExceeded))
}
