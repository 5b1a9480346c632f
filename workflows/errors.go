package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows/turn"
)

// code is the turn.Code that an activity's error carries; empty where it carries none.
func code(err error) turn.Code {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return turn.Code(app.Type())
	}
	return ""
}

// known is c where it is one of ours.
func known(c turn.Code) turn.Code {
	if !c.Known() {
		return ""
	}
	return c
}

// message is what an error says to people.
func message(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return "no worker answered in time"
	}
	return err.Error()
}

// partial is what the model had said when the turn's time was over; empty if the error does not tell.
func partial(err error) string {
	var app *temporal.ApplicationError
	var said string
	if !errors.As(err, &app) || app.Details(&said) != nil { // none, or of another shape
		return ""
	}
	return said
}

// ending maps an error that stops the turn to how it ends.
func (r *run) ending(err error) turn.Result {
	if temporal.IsCanceledError(err) {
		return turn.Result{State: turn.StateCancelled, Reason: turn.FinishCancelled, Answer: r.progress.LastText,
			Message: "the turn was cancelled; what was done is kept"}
	}
	c := code(err)
	if c == "" {
		c = turn.CodeInternal
	}
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: c, Answer: r.progress.LastText, Message: message(err)}
}

func failed(err *turn.Error) turn.Result {
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: err.Code, Message: err.Message}
}
