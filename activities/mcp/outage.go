package mcp

import (
	"errors"

	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/workflows/turn"
)

// modelText returns what the model may read of an error.
func modelText(err error) string {
	var o *pool.Outage
	if errors.As(err, &o) {
		return o.ModelText
	}
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	return safeErrorText(err)
}

// notCalledError returns the error of a call that was not sent: err itself if it is a *turn.Error, otherwise
// tool_not_sent with the reason and the time until the next attempt.
func notCalledError(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	out := turn.Errorf(turn.CodeToolNotSent, err, tool+" was not called")
	if why := modelText(err); why != "" {
		out.Message += ": " + why
	}
	var o *pool.Outage
	if errors.As(err, &o) {
		out.RetryAfter = o.Wait
	}
	return out
}
