package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// await polls the journal until the turn that has the message has ended or the message is kept for a later inference.
// After in.MaxWait it returns the result of stateAfterWait. res is the delivery's state so far.
func (d *Deliveries) await(ctx context.Context, in workflows.HandOverInput,
	res workflows.DeliverResult) (_ workflows.DeliverResult, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for maxWait := time.After(in.MaxWait); err == nil && !res.State.Terminal() && !res.Kept; {
		select {
		case <-tick.C:
			res, err = d.deliveryState(ctx, in)
		case <-maxWait:
			return d.stateAfterWait(ctx, in)
		case <-ctx.Done():
			return res, context.Cause(ctx)
		}
	}
	return res, err
}

// Finish settles the turn: it writes the results that the transcript lacks, the turn's row and its last event. A
// workflow task that was lost may have settled the turn before the turn accepted some of its messages. Finish returns
// the messages that no turn of the session has as undelivered. If the turn was stopped, Finish also stops its
// background subagents.
func (a *Activities) Finish(ctx context.Context, in workflows.FinishInput) (workflows.FinishResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, 0, "")
	record, err := a.finish(ctx, in)
	if errors.Is(err, journal.ErrNotFound) && in.Opening != nil { // Begin failed, so the journal has no turn to settle
		if err = a.openRefused(ctx, in); err == nil {
			record, err = a.finish(ctx, in)
		}
	}
	if errors.Is(err, journal.ErrNotFound) {
		// The turn was cancelled before Begin wrote it to the journal, or its message was a duplicate: there is nothing to
		// settle.
		record = journal.TurnRecord{State: in.Result.State}
		err = a.journal.Tenant(in.Tenant).KeepLeft(ctx, in.Session, in.Left)
	}
	res := workflows.FinishResult{State: record.State}
	if err == nil && record.ID != "" && record.Usage != in.Counters.Usage { // attempts that failed count, too
		res.Usage = &record.Usage
	}
	if record.State == turn.StateCancelled && record.Answer != "" {
		res.Answer = a.secrets.String(record.Answer)
	}
	tenantJournal := a.journal.Tenant(in.Tenant)
	if err == nil {
		res.Undelivered, err = a.undelivered(ctx, tenantJournal, in.Session, in.Messages)
	}
	if err == nil && record.State == turn.StateCancelled {
		res.Stopped, err = tenantJournal.StopSubagents(ctx, in.Session)
	}
	return res, a.attempts.Failure(ctx, err)
}

// finish settles the turn in the journal, with the beginning of its answer.
func (a *Activities) finish(ctx context.Context, in workflows.FinishInput) (journal.TurnRecord, error) {
	in.Answer, in.At = turn.Truncate(in.Answer, turn.AnswerKept), time.Now()
	return a.journal.Finish(ctx, in.FinishInput)
}

// openRefused begins a turn in the journal that Begin has failed to begin, so that the journal records its message and
// its failure. It does nothing if the session already has the message. The turn ends at once, so it begins even if
// other messages come first (OutOfOrder), and the session keeps its agent. If the message itself cannot be recorded, a
// note replaces its text.
func (a *Activities) openRefused(ctx context.Context, in workflows.FinishInput) error {
	agent, err := a.agentOfSession(ctx, in)
	if err != nil {
		return err
	}
	begin := turn.BeginInput{
		Session: in.Session, Tenant: in.Tenant, Turn: in.Turn, WorkflowID: workflows.WorkflowID(in.Tenant, in.Session),
		RunID: in.Turn,
		Agent: agent, Caller: in.Caller, Message: *in.Opening, OutOfOrder: true, Config: json.RawMessage(`{}`), At: time.Now(),
	}
	_, err = a.journal.Begin(ctx, begin)
	var large *journal.TooLargeError
	switch {
	case errors.Is(err, journal.ErrNotFound): // the message's blob is lost, which is why the turn failed
		begin.Message.Text = journal.LostText
	case errors.As(err, &large):
		begin.Message.Text = journal.LargeText
	default:
		return err
	}
	begin.Message.Blob = ""
	_, err = a.journal.Begin(ctx, begin)
	return err
}

// agentOfSession returns the agent of the session's last turn. If the session has no turn, it is the agent that the
// message names, or the default agent if there is no such agent.
func (a *Activities) agentOfSession(ctx context.Context, in workflows.FinishInput) (string, error) {
	rec, err := a.journal.Tenant(in.Tenant).Session(ctx, in.Session)
	if err == nil && rec.LastTurn.Agent != "" {
		return rec.LastTurn.Agent, nil
	}
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return "", err
	}
	agent, err := a.agentOf(in.Opening.Agent)
	if err != nil {
		agent = a.agents[0]
	}
	return agent.ID, nil
}

// undelivered returns the IDs of those messages that no turn of the session has. It skips messages without an ID. j is
// the journal of the session's tenant.
func (a *Activities) undelivered(ctx context.Context, j *journal.DB, session string,
	messages []workflows.Message) (ids []string, err error) {
	for _, m := range messages {
		if m.ID == "" {
			continue
		}
		_, err := j.Delivered(ctx, session, journal.CleanText(m.ID))
		if errors.Is(err, journal.ErrNotFound) {
			ids = append(ids, m.ID)
		} else if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
