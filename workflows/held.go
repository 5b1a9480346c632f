package workflows

import (
	"fmt"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A server of an older protocol holds its call while it asks. Its question is put into the journal by the activity that
// carries the call and is not on the desk: the turn passes answers on, and the activity finds them.

const heldPrefix = "h"

// LegacyElicitationID is the ID of the n-th question, from 1, that is asked while a call is held.
func LegacyElicitationID(call string, attempt, n int) string {
	return fmt.Sprintf("%s%s.%d.%d", heldPrefix, call, attempt, n)
}

// toHeld reports whether something is said to what a held call waits for.
func (r *run) toHeld(id string) bool {
	return strings.HasPrefix(id, heldPrefix) && r.phase == turn.PhaseCallTool
}

// validateHeld rejects what cannot be passed on.
func (r *run) validateHeld(a Answer) error {
	if err := checkReply(turn.Request{Tool: "the tool"}, a.Response); err != nil {
		return rejected(err.Code, err.Message)
	}
	return r.stillHeld(a.Turn, a.Question)
}

// stillHeld rejects answers to a call that its server does not hold. The journal knows the call's questions.
func (r *run) stillHeld(turnID, id string) error {
	if r.stopping || turnID != "" && turnID != r.turnID {
		return rejected(turn.CodeNotWaiting, fmt.Sprintf("turn %s waits for nothing any more", turn.Truncate(turnID, 80)))
	}
	call := callOfHeld(id)
	attempt, holds := r.holding[call]
	_, number, _ := strings.Cut(strings.TrimPrefix(id, heldPrefix+call+"."), ".")
	if n, err := strconv.Atoi(number); !holds || err != nil || n < 1 || LegacyElicitationID(call, attempt, n) != id {
		return rejected(turn.CodeNotWaiting, fmt.Sprintf("nothing waits for that: no question %q is open in this turn", turn.Truncate(id, 40)))
	}
	return nil
}

// pass has the answer recorded where the held call finds it. Where the journal knows no such question, nothing follows.
func (r *run) pass(ctx workflow.Context, decision turn.Decision) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := DecideInput{Session: r.session, Turn: r.turnID, Decisions: []turn.Decision{decision}}
		if _, err := r.decide(ctx, in); err != nil {
			workflow.GetLogger(ctx).Warn("passing on what a person has said", "turn", r.turnID, "wait", decision.ID, "error", err)
		}
	})
}

// callOfHeld is the call of a LegacyElicitationID.
func callOfHeld(id string) string {
	parts := strings.Split(strings.TrimPrefix(id, heldPrefix), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}
