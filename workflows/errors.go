package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// failureOf returns the application error with which the last attempt of an activity failed, or nil if the attempt
// ended in another way. If the last attempt timed out, it is nil even if err wraps an application error: the server
// reports the error of an earlier attempt as the cause of a timeout.
func failureOf(err error) *temporal.ApplicationError {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	if !errors.As(err, &app) {
		return nil
	}
	// A timeout that app wraps is a detail of the activity's own error.
	causeOfTimeout := errors.As(err, &timeout) && !errors.As(app, &timeout)
	if causeOfTimeout {
		return nil
	}
	return app
}

// code returns the type of the application error with which an activity failed, or "" if there is none. The type of an
// error that the activity did not return itself is no known code.
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

// partialText returns the text that the model had produced when the inference used up the turn's time: the second
// detail of its error. It returns "" if the error has no such detail.
func partialText(err error) string {
	var busy time.Duration
	var output string
	app := failureOf(err)
	if app == nil || app.Details(&busy, &output) != nil { // no details, or details of another type
		return ""
	}
	return output
}

// exceededLimit returns the limit that an inference would have exceeded, max_tokens or max_cost_usd: the third detail
// of its error. It returns "" if the error has no such detail.
func exceededLimit(err error) (reason turn.FinishReason) {
	var busy time.Duration
	var output string
	if app := failureOf(err); app != nil && app.Details(&busy, &output, &reason) == nil {
		return reason
	}
	return ""
}

// resultOf returns the result of a turn that ends because of err: cancelled if err is a cancellation, else failed. Its
// answer is the model's latest text.
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

// failedResult returns the result of a turn that failed before it had any text of the model.
func failedResult(err *turn.Error) turn.Result {
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: err.Code, Message: err.Message}
}
