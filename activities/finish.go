package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
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

// await looks for the end of the turn that has the message, up to in.MaxWait.
func (d *Deliveries) await(ctx context.Context, in workflows.HandOverInput, res workflows.DeliverResult,
	err error) (workflows.DeliverResult, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for enough := time.After(in.MaxWait); err == nil && !res.State.Terminal() && !res.Kept; {
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

// Finish settles the turn: the results that the transcript lacks, its row and its last chunk. A workflow task that was
// lost may already have settled the turn, before some of the messages were accepted; Finish returns those as
// undelivered.
func (a *Activities) Finish(ctx context.Context, in workflows.FinishInput) (workflows.FinishResult, error) {
	ctx = withWork(ctx, in.Turn, 0, "")
	record, err := a.finish(ctx, in)
	if errors.Is(err, journal.ErrNotFound) && in.Opening != nil {
		if err = a.openRefused(ctx, in); err == nil {
			record, err = a.finish(ctx, in)
		}
	}
	if errors.Is(err, journal.ErrNotFound) {
		// The turn was cancelled before Begin wrote it to the journal: there is nothing to settle.
		record, err = journal.TurnRecord{State: in.Result.State}, nil
	}
	res := workflows.FinishResult{State: record.State}
	if err == nil && record.ID != "" && record.Usage != in.Counters.Usage {
		res.Usage = &record.Usage
	}
	if record.State == turn.StateCancelled && record.Answer != "" {
		res.Answer = a.redact(record.Answer)
	}
	own := a.journal.Tenant(in.Tenant)
	if err == nil {
		res.Undelivered, err = a.undelivered(ctx, own, in.Session, in.Messages)
	}
	if err == nil && record.State == turn.StateCancelled {
		res.Stopped, err = own.StopSubagents(ctx, in.Session)
	}
	return res, a.failure(ctx, err)
}

func (a *Activities) finish(ctx context.Context, in workflows.FinishInput) (journal.TurnRecord, error) {
	in.Answer, in.At = turn.Truncate(in.Answer, answerKept), time.Now()
	return a.journal.Finish(ctx, in.FinishInput)
}

// openRefused opens a turn that could not begin, so that the journal records its message and its failure. A message
// that the session has already had opens nothing.
func (a *Activities) openRefused(ctx context.Context, in workflows.FinishInput) error {
	begin := turn.BeginInput{
		Session: in.Session, Tenant: in.Tenant, Turn: in.Turn, WorkflowID: workflows.WorkflowID(in.Tenant, in.Session),
		RunID: in.Turn,
		Agent: a.agent.Name, Message: *in.Opening, OutOfOrder: true, Config: json.RawMessage(`{}`), At: time.Now(),
	}
	_, err := a.journal.Begin(ctx, begin)
	var large *journal.TooLargeError
	switch {
	case errors.Is(err, journal.ErrNotFound): // the message's blob is lost, which is why the turn failed
		begin.Message.Text = record.LostText
	case errors.As(err, &large):
		begin.Message.Text = record.LargeText
	default:
		return err
	}
	begin.Message.Blob = ""
	_, err = a.journal.Begin(ctx, begin)
	return err
}

// undelivered returns the IDs of the messages that no turn of the session has.
func (a *Activities) undelivered(ctx context.Context, sessions *journal.DB, session string,
	messages []workflows.Message) (ids []string, err error) {
	for _, m := range messages {
		if m.ID == "" {
			continue
		}
		_, err := sessions.Delivered(ctx, session, record.CleanText(m.ID))
		if errors.Is(err, journal.ErrNotFound) {
			ids = append(ids, m.ID)
		} else if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
