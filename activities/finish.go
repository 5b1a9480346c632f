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

// Finish settles the turn: the results that the transcript lacks, its row and its last event. A workflow task that was
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
