package activities

import (
	"context"
	"errors"
	"time"

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
	// Send hands a message to its session and returns the ID of the turn that accepted it. A message that is sent again
	// is still answered only once. If the session refuses the message, Send returns a *turn.Error.
	Send func(context.Context, workflows.HandOverInput) (turnID string, err error)
	// Running reports whether a turn of the session runs or waits.
	Running func(context.Context, workflows.HandOverInput) (bool, error)
}

// Deliverer is the part of journal.DB that reports which turn has a message.
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
	lookEvery  = 250 * time.Millisecond
	sendWithin = 15 * time.Second
)

// HandOver implements workflows.Deliveries.
func (d *Deliveries) HandOver(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	beat := startClock(ctx)
	defer beat.stop()
	res, err := d.handOver(ctx, in)
	retryFor := d.o.RetryFor
	if in.Acknowledged {
		retryFor = turn.MaxDuration
	}
	return res, failure(ctx, retryFor, err)
}

func (d *Deliveries) handOver(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res, err := d.look(ctx, in)
	accepted := res.Turn
	if err == nil && accepted == "" && !res.Kept {
		accepted, err = d.send(ctx, in)
	}
	res, err = d.await(ctx, in, res, err)
	if accepted != "" {
		res.Accepted = map[string]string{in.Message.ID: accepted}
	}
	return res, err
}

// look returns what the journal has of the message.
func (d *Deliveries) look(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res := workflows.DeliverResult{Session: in.Session, MessageID: in.Message.ID}
	t, err := d.o.Journal(in.Tenant).Delivered(ctx, in.Session, in.Message.ID)
	if errors.Is(err, journal.ErrNotFound) {
		res.Kept, err = d.o.Journal(in.Tenant).AnswerKept(ctx, in.Session, in.Message.ID)
		if errors.Is(err, journal.ErrNotFound) { // a new session
			err = nil
		}
		return res, err
	}
	res.Turn, res.State, res.FinishReason = t.ID, t.State, t.Reason
	return res, err
}

// send sends the message and returns the ID of the turn that accepted it. If the session is too busy to accept it, send
// returns no ID and no error, and a later attempt sends it again.
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
	}
	return "", turn.Errorf(turn.CodeTemporalUnavailable, err, "the session cannot be reached; the message is sent again")
}

// ended looks a last time. A turn that was ended from outside is settled only when the session's next turn begins,
// which may be this delivery's own next message; ended reports such a turn as terminated.
func (d *Deliveries) ended(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	running, err := d.o.Running(ctx, in)
	if err != nil {
		return workflows.DeliverResult{}, turn.Errorf(turn.CodeTemporalUnavailable, err,
			"cannot check whether the session has a running turn; the check is repeated")
	}
	res, err := d.look(ctx, in) // only now, because the turn may have ended meanwhile
	if err == nil && !running && res.Turn != "" && !res.State.Terminal() {
		res.State, res.FinishReason = turn.StateClosed, turn.FinishTerminated
	}
	res.Undelivered = err == nil && !running && res.Turn == "" && !res.Kept
	return res, err
}
