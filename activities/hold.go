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
// but the call dies with its connection, and the question with it. While it is held, the call's clock stands still.
func (a *Activities) holding(ctx context.Context, in workflows.CallInput, clock *clock) func(turn.Inquiry, <-chan struct{}) (turn.Reply, error) {
	var asked atomic.Int32
	return func(q turn.Inquiry, done <-chan struct{}) (turn.Reply, error) {
		defer clock.rest()()
		q.Message = a.redact(q.Message)
		wait := turn.Wait{
			ID: workflows.HeldID(in.Call.ID, in.Attempt, int(asked.Add(1))), Kind: turn.WaitElicitation, Step: in.Step, Tool: in.Tool.ID,
			Call: in.Call.ID, Question: turn.Cut(q.Message, turn.ResultPreview), Inquiry: &q,
		}
		ruling, err := a.awaitHeld(ctx, done, in, wait)
		if err != nil {
			return turn.Reply{Key: q.Key, Action: turn.ReplyCancel}, fmt.Errorf("waiting for an answer to %s: %w", wait.ID, err)
		}
		ruling.Reply.Key = q.Key
		return *ruling.Reply, nil
	}
}

// tickOr waits for the next look at the journal, or says why there is none.
func tickOr(ctx context.Context, done <-chan struct{}, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-done:
		return errNobodyAnswered
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errNobodyAnswered: the host has waited long enough, or the call has ended.
var errNobodyAnswered = errors.New("nobody has answered in time")

// awaitHeld waits for the ruling about what a held call asks. Where nobody has said anything in time, the question is closed.
func (a *Activities) awaitHeld(ctx context.Context, done <-chan struct{}, in workflows.CallInput, wait turn.Wait) (turn.Ruling, error) {
	ruling, err := a.ruled(ctx, done, in, wait)
	if err == nil {
		return ruling, nil
	}
	ctx = context.WithoutCancel(ctx)
	if !a.expireHeld(ctx, in, wait) { // it may not even be open, and asking would open it
		return ruling, err
	}
	// The first ruling stands. Who has answered after the last look at the journal is heard, for they were told so.
	if last, found, _ := a.askHeld(ctx, in, wait); found && last.Verdict != turn.VerdictExpired {
		return last, nil
	}
	return ruling, err
}

// ruled asks until there is a ruling.
func (a *Activities) ruled(ctx context.Context, done <-chan struct{}, in workflows.CallInput, wait turn.Wait) (turn.Ruling, error) {
	tick := time.NewTicker(heldPoll)
	defer tick.Stop()
	for {
		ruling, found, err := a.askHeld(ctx, in, wait)
		if found || err != nil && asTurnError(err).Code != turn.CodeStoreUnavailable {
			return ruling, err
		}
		if err := tickOr(ctx, done, tick.C); err != nil {
			return turn.Ruling{}, err
		}
	}
}

// askHeld asks, and returns the ruling that there is: asking again changes nothing.
func (a *Activities) askHeld(ctx context.Context, in workflows.CallInput, wait turn.Wait) (_ turn.Ruling, found bool, err error) {
	list, err := a.journal.Ask(ctx, journal.AskInput{Session: in.Session, Turn: in.Turn, Waits: []turn.Wait{wait}, At: time.Now()})
	for _, r := range list {
		if r.ID == wait.ID && r.Reply != nil {
			return r, true, err
		}
	}
	return turn.Ruling{}, false, err
}

// expireHeld closes a question that nobody can answer any more.
func (a *Activities) expireHeld(ctx context.Context, in workflows.CallInput, wait turn.Wait) (closed bool) {
	ruling := turn.Ruling{ID: wait.ID, Verdict: turn.VerdictExpired, At: time.Now()}
	err := a.journal.Decide(ctx, journal.DecideInput{Session: in.Session, Turn: in.Turn, Rulings: []turn.Ruling{ruling}, At: time.Now()})
	if err != nil {
		logFailure(ctx, asTurnError(err))
	}
	return err == nil
}
