package activities

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// DeliveryOptions are what deliveries work with; all are needed.
type DeliveryOptions struct {
	// Journal is that of a tenant.
	Journal func(tenant string) Deliverer
	// Send hands a message to its session. It may be called again with the same message, which is then answered once. What
	// the session refuses is a *turn.Error.
	Send func(context.Context, workflows.HandOverInput) error
	// Running reports whether a turn of the session runs or waits.
	Running func(context.Context, workflows.HandOverInput) (bool, error)
}

// Deliverer is the part of a journal's Store that tells what became of a message.
type Deliverer interface {
	Delivered(ctx context.Context, session, messageID string) (journal.TurnRecord, error)
}

// Deliveries implements workflows.Deliveries. Register a pointer to it; it has no other exported methods.
type Deliveries struct{ o DeliveryOptions }

var _ workflows.Deliveries = (*Deliveries)(nil)

// NewDeliveries makes the activities of the Deliver workflow.
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
	return res, failure(ctx, err)
}

func (d *Deliveries) handOver(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res, err := d.look(ctx, in)
	if err == nil && res.Turn == "" {
		err = d.send(ctx, in)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for enough := time.After(in.Patience); err == nil && !res.State.Terminal(); {
		select {
		case <-tick.C:
			res, err = d.look(ctx, in)
		case <-enough:
			return d.ended(ctx, in)
		case <-ctx.Done():
			return res, context.Cause(ctx)
		}
	}
	return res, err
}

// look says what the journal has of the message.
func (d *Deliveries) look(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	res := workflows.DeliverResult{Session: in.Session, MessageID: in.Message.ID}
	t, err := d.o.Journal(in.Tenant).Delivered(ctx, in.Session, in.Message.ID)
	if errors.Is(err, journal.ErrNotFound) {
		return res, nil
	}
	res.Turn, res.State, res.FinishReason = t.ID, t.State, t.Reason
	return res, err
}

// send sends the message. A session that takes no more just now is told again the next time.
func (d *Deliveries) send(ctx context.Context, in workflows.HandOverInput) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	err := d.o.Send(ctx, in)
	var refused *turn.Error
	switch {
	case errors.As(err, &refused) && (refused.Code == turn.CodeSessionBusy || refused.Code == turn.CodeSessionEnding):
		return nil
	case errors.As(err, &refused) || err == nil:
		return err
	}
	return turn.Errorf(turn.CodeStoreUnavailable, err, "the session cannot be reached; the message is sent again")
}

// ended looks a last time. A turn that was ended from outside is not settled before the session's next one begins, which
// may be this delivery's own next message: it is over all the same.
func (d *Deliveries) ended(ctx context.Context, in workflows.HandOverInput) (workflows.DeliverResult, error) {
	running, err := d.o.Running(ctx, in)
	if err != nil {
		return workflows.DeliverResult{}, turn.Errorf(turn.CodeStoreUnavailable, err, "the session cannot be looked at; it is tried again")
	}
	res, err := d.look(ctx, in) // after that: it may have come to its end meanwhile
	if err == nil && !running && res.Turn != "" && !res.State.Terminal() {
		res.State, res.FinishReason = turn.StateClosed, turn.FinishTerminated
	}
	res.Undelivered = err == nil && !running && res.Turn == ""
	return res, err
}
