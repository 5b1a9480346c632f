package activities

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// heldPoll is how often a held call polls the journal for the response that it waits for.
const heldPoll = 250 * time.Millisecond

// holding returns a function that puts an elicitation to the user while its server holds the call, as servers of older
// protocol versions do. The host bounds how long a call may be held. The response comes through the turn and the
// journal like any other, but the call dies with its connection, and the elicitation with it. While the call is held,
// its clock is stopped.
func (a *Activities) holding(ctx context.Context, in workflows.CallInput, clock *clock) func(turn.Elicitation, <-chan struct{}) (turn.ElicitationResponse, error) {
	var asked atomic.Int32
	return func(q turn.Elicitation, done <-chan struct{}) (turn.ElicitationResponse, error) {
		defer clock.rest()()
		q.Message = a.redact(q.Message)
		request := turn.Request{
			ID: workflows.LegacyElicitationID(in.Call.ID, in.Attempt, int(asked.Add(1))), Kind: turn.RequestElicitation, Step: in.Step, Tool: in.Tool.ID,
			Call: in.Call.ID, Question: turn.Truncate(q.Message, turn.ResultPreview), Elicitation: &q,
		}
		decision, err := a.awaitHeld(ctx, done, in, request)
		if err != nil {
			return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}, fmt.Errorf("waiting for an answer to %s: %w", request.ID, err)
		}
		decision.Response.Key = q.Key
		return *decision.Response, nil
	}
}

// tickOr waits for the next poll of the journal. It returns an error if there is none to come.
func tickOr(ctx context.Context, done <-chan struct{}, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-done:
		return errNobodyAnswered
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errNobodyAnswered means that no response came before the host's bound, or before the call ended.
var errNobodyAnswered = errors.New("nobody has answered in time")

// awaitHeld waits for the decision on a held call's request. If there is none in time, awaitHeld closes the request as
// expired.
func (a *Activities) awaitHeld(ctx context.Context, done <-chan struct{}, in workflows.CallInput, request turn.Request) (turn.Decision, error) {
	decision, err := a.ruled(ctx, done, in, request)
	if err == nil {
		return decision, nil
	}
	ctx = context.WithoutCancel(ctx)
	if !a.expireHeld(ctx, in, request) { // the request may not even be open, and asking again would open it
		return decision, err
	}
	// The first decision stands. If a user responded after the last poll, that response counts, because the user was
	// told so.
	if last, found, _ := a.askHeld(ctx, in, request); found && last.Status != turn.StatusExpired {
		return last, nil
	}
	return decision, err
}

// ruled polls until there is a decision.
func (a *Activities) ruled(ctx context.Context, done <-chan struct{}, in workflows.CallInput, request turn.Request) (turn.Decision, error) {
	tick := time.NewTicker(heldPoll)
	defer tick.Stop()
	for {
		decision, found, err := a.askHeld(ctx, in, request)
		if found || err != nil && asTurnError(err).Code != turn.CodeStoreUnavailable {
			return decision, err
		}
		if err := tickOr(ctx, done, tick.C); err != nil {
			return turn.Decision{}, err
		}
	}
}

// askHeld submits the request and returns its decision if there is one. Submitting it again changes nothing.
func (a *Activities) askHeld(ctx context.Context, in workflows.CallInput, request turn.Request) (_ turn.Decision, found bool, err error) {
	list, err := a.journal.Ask(ctx, journal.AskInput{Session: in.Session, Turn: in.Turn, Requests: []turn.Request{request}, At: time.Now()})
	for _, r := range list {
		if r.ID == request.ID && r.Response != nil {
			return r, true, err
		}
	}
	return turn.Decision{}, false, err
}

// expireHeld closes a request that can no longer be answered.
func (a *Activities) expireHeld(ctx context.Context, in workflows.CallInput, request turn.Request) (closed bool) {
	decision := turn.Decision{ID: request.ID, Status: turn.StatusExpired, At: time.Now()}
	err := a.journal.Decide(ctx, journal.DecideInput{Session: in.Session, Turn: in.Turn, Decisions: []turn.Decision{decision}, At: time.Now()})
	if err != nil {
		logFailure(ctx, asTurnError(err))
	}
	return err == nil
}
