package workflows

import (
	"fmt"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A server of an older protocol holds its call while its elicitation is open. The activity that runs the call records
// the elicitation in the journal; it is not on the desk. The turn forwards responses to the journal, where the activity
// finds them.

const heldPrefix = "h"

// LegacyElicitationID returns the request ID of the n-th elicitation, counted from 1, that a server sends while it
// holds a call.
func LegacyElicitationID(call string, attempt, n int) string {
	return fmt.Sprintf("%s%s.%d.%d", heldPrefix, call, attempt, n)
}

// toHeld reports whether id names an elicitation of a held call.
func (r *run) toHeld(id string) bool {
	return strings.HasPrefix(id, heldPrefix) && r.phase == turn.PhaseCallTool
}

// validateHeld rejects a response that cannot be forwarded.
func (r *run) validateHeld(a Answer) error {
	if err := checkReply(turn.Request{Tool: "the tool"}, a.Response); err != nil {
		return rejected(err.Code, err.Message)
	}
	return r.stillHeld(a.Turn, a.Question)
}

// stillHeld rejects a response to a call that its server does not hold. The journal knows the call's elicitations.
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

// pass records the response in the journal, where the held call finds it. If the journal has no such elicitation,
// nothing happens.
func (r *run) pass(ctx workflow.Context, decision turn.Decision) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := DecideInput{Session: r.session, Turn: r.turnID, Decisions: []turn.Decision{decision}}
		if _, err := r.decide(ctx, in); err != nil {
			workflow.GetLogger(ctx).Warn("passing on what a person has said", "turn", r.turnID, "wait", decision.ID, "error", err)
		}
	})
}

// callOfHeld returns the call of a LegacyElicitationID.
func callOfHeld(id string) string {
	parts := strings.Split(strings.TrimPrefix(id, heldPrefix), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}
