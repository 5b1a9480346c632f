package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Ask writes the turn's requests to the journal, so that users see them. It removes the turn's transcript from the
// cache, because the turn may wait for days and thousands of turns may wait at once. The next inference reads it
// again. If the turn is a subagent's, the streams of the turns above it tell of the first request.
func (a *Activities) Ask(ctx context.Context, in turn.AskInput) (workflows.AskResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, 0, "")
	in.At = time.Now()
	decisions, err := a.journal.Ask(ctx, in)
	a.frozen.ForgetWindows(in.Head)
	for _, r := range in.Requests {
		a.frozen.ForgetWindows(frozen.StepHead(journal.StepKey{Turn: in.Turn, Step: r.Step}))
	}
	if err == nil {
		r := in.Requests[0]
		a.notifyCallers(ctx, in.Session, in.Turn,
			strings.TrimSpace(fmt.Sprintf("waits for %s %s: see `everturn approvals`", r.Kind, r.Tool)))
	}
	return workflows.AskResult{Decisions: decisions}, a.attempts.Failure(ctx, err)
}

// Decide records decisions. The messages that answer a question may be repetitions of earlier ones: if the session
// already has all of them, Decide records nothing and sets AlreadySent, and the question stays open.
func (a *Activities) Decide(ctx context.Context, in turn.DecisionsInput) (workflows.DecisionsResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, 0, "")
	res := workflows.DecisionsResult{}
	delivered, err := a.alreadyDelivered(ctx, in.Turn, in.MessageIDs)
	if err == nil && !delivered {
		in.At = time.Now()
		if err = a.journal.Decide(ctx, in); err == nil {
			a.notifyCallers(ctx, in.Session, in.Turn, "goes on")
		}
	}
	res.AlreadySent = delivered
	return res, a.attempts.Failure(ctx, err)
}

// alreadyDelivered reports whether the turn's session already has each of the messages with these IDs. It is false if
// there are none, or if one has no ID.
func (a *Activities) alreadyDelivered(ctx context.Context, turnID string, ids []string) (bool, error) {
	if len(ids) == 0 || slices.Contains(ids, "") {
		return false, nil
	}
	t, err := a.frozen.Turn(ctx, turnID)
	if err != nil {
		return false, err
	}
	tenantJournal := a.journal.Tenant(t.Tenant)
	for _, id := range ids {
		if _, err := tenantJournal.Delivered(ctx, t.Session, journal.CleanText(id)); errors.Is(err, journal.ErrNotFound) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}
