package activities

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// heldPoll is how often the journal is asked whether somebody has answered what a held call waits for.
const heldPoll = 250 * time.Millisecond

// holding puts a question before people that a server asks in the middle of a call, which it holds meanwhile: what servers
// of older protocols know. The host bounds how long. Its answers come through the turn and the journal like any others,
// but the call dies with its connection, and the question with it.
func (a *Activities) holding(ctx context.Context, in workflows.CallInput) func(turn.Inquiry, <-chan struct{}) (turn.Reply, error) {
	var asked atomic.Int32
	return func(q turn.Inquiry, done <-chan struct{}) (turn.Reply, error) {
		q.Message = a.redact(q.Message)
		wait := turn.Wait{
			ID: workflows.HeldID(in.Call.ID, in.Attempt, int(asked.Add(1))), Kind: turn.WaitElicitation, Step: in.Step, Tool: in.Tool.ID,
			Call: in.Call.ID, Question: turn.Cut(q.Message, turn.ResultPreview), Inquiry: &q,
		}
		reply, err := a.awaitHeld(ctx, done, in, wait)
		if err != nil {
			a.expireHeld(context.WithoutCancel(ctx), in, wait)
			return turn.Reply{Key: q.Key, Action: turn.ReplyCancel}, fmt.Errorf("waiting for an answer to %s: %w", wait.ID, err)
		}
		reply.Key = q.Key
		return reply, nil
	}
}

// errNobodyAnswered: the host has waited long enough, or the call has ended.
var errNobodyAnswered = errors.New("nobody has answered in time")

// awaitHeld asks until there is a ruling: asking again changes nothing, and tells the ruling that there is.
func (a *Activities) awaitHeld(ctx context.Context, done <-chan struct{}, in workflows.CallInput, wait turn.Wait) (turn.Reply, error) {
	tick := time.NewTicker(heldPoll)
	defer tick.Stop()
	for {
		ruled, err := a.journal.Ask(ctx, journal.AskInput{Session: in.Session, Turn: in.Turn, Waits: []turn.Wait{wait}, At: time.Now()})
		if err != nil && asTurnError(err).Code != turn.CodeStoreUnavailable {
			return turn.Reply{}, err
		}
		for _, r := range ruled {
			if r.ID == wait.ID && r.Reply != nil {
				return *r.Reply, nil
			}
		}
		select {
		case <-tick.C:
		case <-done:
			return turn.Reply{}, errNobodyAnswered
		case <-ctx.Done():
			return turn.Reply{}, context.Cause(ctx)
		}
	}
}

// expireHeld closes a question that nobody can answer any more.
func (a *Activities) expireHeld(ctx context.Context, in workflows.CallInput, wait turn.Wait) {
	ruling := turn.Ruling{ID: wait.ID, Verdict: turn.VerdictExpired, At: time.Now()}
	err := a.journal.Decide(ctx, journal.DecideInput{Session: in.Session, Turn: in.Turn, Rulings: []turn.Ruling{ruling}, At: time.Now()})
	if err != nil {
		logFailure(ctx, asTurnError(err))
	}
}
