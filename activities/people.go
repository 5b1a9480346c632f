package activities

import (
	"context"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

// Ask puts what the turn waits for where people see it.
func (a *Activities) Ask(ctx context.Context, in workflows.AskInput) (workflows.AskResult, error) {
	err := a.journal.Ask(ctx, journal.AskInput{Session: in.Session, Turn: in.Turn, Waits: in.Waits, At: time.Now()})
	return workflows.AskResult{Version: workflows.WireVersion}, failure(ctx, err)
}

// Decide records what people said.
func (a *Activities) Decide(ctx context.Context, in workflows.DecideInput) (workflows.DecideResult, error) {
	err := a.journal.Decide(ctx, journal.DecideInput{Session: in.Session, Turn: in.Turn, Rulings: in.Rulings, At: time.Now()})
	return workflows.DecideResult{Version: workflows.WireVersion}, failure(ctx, err)
}
