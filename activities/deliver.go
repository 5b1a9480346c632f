package activities

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// DeliveryOptions are the dependencies of deliveries; all but RetryFor are required.
type DeliveryOptions struct {
	// RetryFor is how long a delivery waits for a journal, or a session, that cannot be reached.
	RetryFor time.Duration
	// Journal returns a tenant's journal.
	Journal func(tenant string) Deliverer
	// Send sends a message to its session and returns the ID of the turn that accepted it. A message that is sent again
	// is still answered only once. If the session refuses the message, Send returns a *turn.Error.
	Send func(context.Context, workflows.HandOverInput) (turnID string, err error)
	// Running reports whether the session has a turn that is running or waiting for a decision.
	Running func(context.Context, workflows.HandOverInput) (bool, error)
}

// Deliverer is the part of journal.DB that reports what became of a message. journal.DB documents the methods.
type Deliverer interface {
	Delivered(ctx context.Context, session, messageID string) (journal.TurnRecord, error)
	AnswerKept(ctx context.Context, session, messageID string) (bool, error)
}

// Deliveries implements workflows.Deliveries. Register a pointer to it; it has no other exported methods.
type Deliveries struct{ o DeliveryOptions }

var _ workflows.Activities = (*Activities)(nil)

var _ workflows.Deliveries = (*Deliveries)(nil)

// NewDeliveries returns the activities of the Deliver workflow.
func NewDeliveries(o DeliveryOptions) *Deliveries { return &Deliveries{o} }

const (
	pollEvery  = 250 * time.Millisecond // between two reads of the journal while a delivery waits for a turn's end
	sendWithin = 15 * time.Second       // for one try to send a message
)

// HandOver sends a message to its session and waits up to in.MaxWait for the end of the turn that accepts it. It
// implements workflows.Deliveries.
func (d *Deliveries) HandOver(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	clock := attempt.StartClock(ctx) // for its heartbeats
	defer clock.Stop()
	res, err := d.handOver(ctx, in)
	retryFor := d.o.RetryFor
	if in.Acknowledged { // a turn has accepted the message, so no outage may lose it
		retryFor = turn.MaxDuration
	}
	return res, attempt.Failure(ctx, retryFor, err)
}

// handOver sends the message, unless a turn has it or the journal keeps it for a later inference, and waits for the
// end of its turn. DeliverResult.Accepted names the turn that has accepted the message, even if handOver returns an
// error.
func (d *Deliveries) handOver(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res, err := d.deliveryState(ctx, in)
	accepted := res.Turn
	if err == nil && accepted == "" && !res.Kept {
		accepted, err = d.send(ctx, in)
	}
	if err == nil {
		res, err = d.await(ctx, in, res)
	}
	if accepted != "" {
		res.Accepted = map[string]string{in.Message.ID: accepted}
	}
	return res, err
}

// deliveryState reads from the journal what became of the message: the turn that has it, with its state, or that the
// journal keeps the message for a later inference (Kept). Neither is set if the session does not have the message.
func (d *Deliveries) deliveryState(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res := workflows.DeliverResult{Session: in.Session, MessageID: in.Message.ID}
	t, err := d.o.Journal(in.Tenant).Delivered(ctx, in.Session, in.Message.ID)
	if errors.Is(err, journal.ErrNotFound) {
		res.Kept, err = d.o.Journal(in.Tenant).AnswerKept(ctx, in.Session, in.Message.ID)
		if errors.Is(err, journal.ErrNotFound) { // the session does not exist yet
			err = nil
		}
		return res, err
	}
	res.Turn, res.State, res.FinishReason = t.ID, t.State, t.Reason
	return res, err
}

// send sends the message and returns the ID of the turn that accepted it. If the session is too busy or about to end
// its turn, send returns an empty ID and no error; the workflow's next HandOver sends the message again.
func (d *Deliveries) send(ctx context.Context, in workflows.HandOverInput) (turnID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	turnID, err = d.o.Send(ctx, in)
	var refused *turn.Error
	switch {
	case errors.As(err, &refused) && (refused.Code == turn.CodeSessionBusy || refused.Code == turn.CodeSessionEnding):
		return "", nil
	case errors.As(err, &refused) || err == nil:
		return turnID, err
	} // any other error is one of the connection
	return "", turn.NewError(turn.CodeTemporalUnavailable, err, "the session cannot be reached; the message is sent again")
}

// stateAfterWait returns the state of the message after the longest wait. A turn that was terminated is not settled in
// the journal until the session's next turn begins, which may wait for this delivery. So if no turn of the session
// runs, stateAfterWait reports an unsettled turn as terminated, and a message that no turn has as undelivered.
func (d *Deliveries) stateAfterWait(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	running, err := d.o.Running(ctx, in)
	if err != nil {
		return workflows.DeliverResult{}, turn.NewError(turn.CodeTemporalUnavailable, err,
			"cannot check whether the session has a running turn; the check is repeated")
	}
	// Read after Running, so that a turn that ends between the two does not look terminated.
	res, err := d.deliveryState(ctx, in)
	if err == nil && !running && res.Turn != "" && !res.State.Terminal() {
		res.State, res.FinishReason = turn.StateClosed, turn.FinishTerminated
	}
	res.Undelivered = err == nil && !running && res.Turn == "" && !res.Kept
	return res, err
}
