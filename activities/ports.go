package activities

import (
	"context"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/call"
	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	completion.Checker
	call.Tools
}

// Journal is what the activities need of a journal.DB, which documents the methods.
type Journal interface {
	attempt.Journal
	frozen.Journal
	authorize.Journal
	completion.Journal
	call.Journal
	Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error)
	Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error)
	Ask(ctx context.Context, session, turnID string, requests []turn.Request, at time.Time) ([]turn.Decision, error)
	Decide(ctx context.Context, session, turnID string, decisions []turn.Decision, at time.Time) error
}
