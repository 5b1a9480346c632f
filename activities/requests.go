package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Ask writes the turn's requests to the journal, so that users see them. It removes the turn's transcript from the
// cache, because the turn may wait for days and thousands of turns may wait at once. The next inference reads it
// again. If the turn is a subagent's, the streams of the turns above it tell of the first request.
func (a *Activities) Ask(ctx context.Context, requests []turn.Request) ([]turn.Decision, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	first := requests[0]
	ctx = attempt.WithWork(ctx, first.Turn, 0, "")
	decisions, err := a.journal.Ask(ctx, first.Session, first.Turn, requests, time.Now())
	for _, r := range requests {
		a.frozen.ForgetStep(journal.StepKey{Turn: first.Turn, Step: r.Step})
	}
	if err == nil {
		a.notifyCallers(ctx, first.Session, first.Turn,
			strings.TrimSpace(fmt.Sprintf("waits for %s %s: see `everturn approvals`", first.Kind, first.Tool)))
	}
	return decisions, a.attempts.Failure(ctx, err)
}

// Decide records the decisions of requests. The messages that answer a question may be repetitions of earlier ones: if
// the session already has all of them, Decide records nothing and returns true, and the question stays open.
func (a *Activities) Decide(ctx context.Context, requests []turn.Request) (alreadySent bool, err error) {
	if len(requests) == 0 {
		return false, nil
	}
	session, turnID := requests[0].Session, requests[0].Turn
	ctx = attempt.WithWork(ctx, turnID, 0, "")
	var decisions []turn.Decision
	var messages []string
	for _, r := range requests {
		if r.Decision != nil {
			decisions = append(decisions, *r.Decision)
			messages = append(messages, r.Decision.Messages...)
		}
	}
	alreadySent, err = a.alreadyDelivered(ctx, turnID, messages)
	if err == nil && !alreadySent {
		if err = a.journal.Decide(ctx, session, turnID, decisions, time.Now()); err == nil {
			a.notifyCallers(ctx, session, turnID, "goes on")
		}
	}
	return alreadySent, a.attempts.Failure(ctx, err)
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
