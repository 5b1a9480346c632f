package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxLimitWaits bounds the waits of a turn for its providers: each adds about ten events to the history.
const maxLimitWaits = 200

// waitedForLimit waits until the provider accepts requests again, if that is why the inference failed and the turn may
// wait that long. It reports whether the inference is to be repeated. A stop ends the wait.
func (r *run) waitedForLimit(ctx workflow.Context, err error) bool {
	wait, p := untilReset(err), &r.progress
	if wait <= 0 || p.LimitWaited+wait > p.Config.LimitWait || p.LimitWaits >= maxLimitWaits || ctx.Err() != nil {
		return false
	}
	p.Counters.Busy += workingTime(err)
	p.LimitWaited += wait
	p.LimitWaits++
	until := workflow.Now(ctx).Add(wait).UTC().Format("2006-01-02 15:04 UTC")
	workflow.SetCurrentDetails(ctx, r.details("waits until "+until+" for "+turn.Truncate(p.Config.Provider, 80)))
	_, stopped := awaitWithin(ctx, wait, "wait until the provider accepts requests", func() bool { return false })
	if stopped != nil {
		return false
	}
	r.show(ctx)
	return true
}

// untilReset returns how long the provider refuses requests, or 0 if that is not the reason of the error.
func untilReset(err error) time.Duration {
	var app *temporal.ApplicationError
	var busy, wait time.Duration
	var said string
	if !errors.As(err, &app) || app.Details(&busy, &said, &wait) != nil { // fewer details, or others
		return 0
	}
	return wait
}
