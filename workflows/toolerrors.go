package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// mayHaveRun reports whether an attempt that ended with err may have reached its tool.
func mayHaveRun(err error) bool {
	var busy time.Duration
	var reached bool // the activity reports it as the second detail of its error
	if app := failureOf(err); app != nil && app.Details(&busy, &reached) == nil && reached {
		return true
	}
	return code(err) == turn.CodeToolOutcomeUnknown || attemptLost(err) && !neverStarted(err)
}

// neverStarted reports whether err is the timeout of an activity that no worker took from its task queue in time.
func neverStarted(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// workingTime returns the working time of an attempt that ended with err: the first detail of the activity's error or,
// if the attempt timed out, of its last heartbeat. It returns 0 if there is none.
func workingTime(err error) (busy time.Duration) {
	if err == nil {
		return 0
	}
	var timeout *temporal.TimeoutError
	failed := failureOf(err)
	switch {
	case failed != nil && failed.HasDetails():
		err = failed.Details(&busy)
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails():
		err = timeout.LastHeartbeatDetails(&busy)
	default:
		return 0
	}
	if err != nil { // the details are of another type
		return 0
	}
	return busy
}

// attemptLost reports whether err means that the end of the attempt is unknown: it is a timeout, or an error that the
// activity did not return itself. The server reports a timeout when a worker dies. The SDK reports an error of its own
// if it cannot deliver the activity's result, for example while a worker stops.
func attemptLost(err error) bool {
	if err == nil || temporal.IsCanceledError(err) {
		return false
	}
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) || !code(err).Known()
}

// outcomeOf returns the outcome of a call whose last attempt ended with err. It returns "" if err is nil, because the
// receipt then has the outcome, and if err ends the turn.
func outcomeOf(err error) turn.Outcome {
	switch code(err) {
	case turn.CodeToolNotSent, turn.CodeToolDrift, turn.CodeToolStateLost:
		return turn.OutcomeError
	case turn.CodeInvalidAction, turn.CodePolicyDenied, turn.CodeLimitExceeded:
		return turn.OutcomeDenied
	case turn.CodeToolOutcomeUnknown:
		return turn.OutcomeUnknown
	}
	if attemptLost(err) {
		return turn.OutcomeUnknown
	}
	return ""
}
