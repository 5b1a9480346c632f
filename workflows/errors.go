package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// failureOf returns the error with which the last attempt of an activity failed, or nil if it ended in another way. The
// cause of a timeout is the error of an earlier attempt, and says nothing about the attempt that timed out.
func failureOf(err error) *temporal.ApplicationError {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	if !errors.As(err, &app) || errors.As(err, &timeout) && !errors.As(app, &timeout) {
		return nil
	}
	return app
}

// code returns the turn.Code of an activity's error, or an empty one.
func code(err error) turn.Code {
	if app := failureOf(err); app != nil {
		return turn.Code(app.Type())
	}
	return ""
}

// knownCode returns c if it is a code of package turn, and an empty code otherwise.
func knownCode(c turn.Code) turn.Code {
	if !c.Known() {
		return ""
	}
	return c
}

// message returns the user-facing text of an error.
func message(err error) string {
	if app := failureOf(err); app != nil {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return "no worker answered in time"
	}
	return err.Error()
}

// partialText returns what the model had said when the turn's time was over. It is empty if the error does not contain
// it.
func partialText(err error) string {
	var busy time.Duration
	var output string
	app := failureOf(err)
	if app == nil || app.Details(&busy, &output) != nil { // no details, or details of another type
		return ""
	}
	return output
}

// endedBy returns the limit with which an inference was refused, or an empty reason.
func endedBy(err error) (reason turn.FinishReason) {
	var busy time.Duration
	var output string
	if app := failureOf(err); app != nil && app.Details(&busy, &output, &reason) == nil {
		return reason
	}
	return ""
}

// resultOf returns the result of a turn that err stops.
func (r *run) resultOf(err error) turn.Result {
	if temporal.IsCanceledError(err) {
		return turn.Result{State: turn.StateCancelled, Reason: turn.FinishCancelled, Answer: r.progress.LastText,
			Message: "the turn was cancelled; what was done is kept"}
	}
	c := code(err)
	if c == "" {
		c = turn.CodeInternal
	}
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: c, Answer: r.progress.LastText,
		Message: message(err)}
}

func failedResult(err *turn.Error) turn.Result {
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: err.Code, Message: err.Message}
}

// The texts that the model gets for calls that have no result of their own.
