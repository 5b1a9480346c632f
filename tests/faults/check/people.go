package check

import (
	"encoding/json"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// asked is one request of a turn, as each ledger has it: the turn's stream, the journal's table, what clients sent and
// were told, and what Temporal has accepted.
type asked struct {
	turn     *turnLedger
	id       string
	wait     turn.Request
	requests int
	rulings  []ruled
	row      *journal.RequestRecord
	said     []Entry // deciding and decided, of this request
	accepted []workflows.Approval
}

// ruled is a decision and the time at which the stream had it.
type ruled struct {
	turn.Decision
	at time.Time
}

// indexWaits files every line about a request under its turn and request ID.
func (c *checker) indexWaits() {
	c.asks = map[call]*asked{}
	for _, t := range c.sorted {
		for _, chunk := range t.chunks {
			c.indexAsked(t, chunk)
		}
	}
	for i, w := range c.Waits {
		c.ask(w.Turn, w.ID).row = &c.Waits[i]
	}
	for _, e := range c.Client {
		if e.Event == Deciding || e.Event == Decided {
			a := c.ask(e.Turn, e.Call)
			a.said = append(a.said, e)
		}
	}
	for id := range c.runs {
		for _, approval := range c.accepted(id) {
			a := c.ask(id, approval.Call)
			a.accepted = append(a.accepted, approval)
		}
	}
}

func (c *checker) ask(turnID, id string) *asked {
	key := call{turnID, id}
	if c.asks[key] == nil {
		c.asks[key] = &asked{turn: c.turns[turnID], id: id}
	}
	return c.asks[key]
}

func (c *checker) indexAsked(t *turnLedger, chunk turn.Chunk) {
	switch chunk.Kind {
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked, turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
	default:
		return
	}
	var data turn.RequestChunk
	if err := json.Unmarshal(chunk.Data, &data); err != nil {
		c.breaks(I5, "chunk %d of turn %s cannot be read: %v", chunk.Index, t.record.ID, err)
		return
	}
	a := c.ask(t.record.ID, data.ID)
	if data.Decision == nil {
		a.requests, a.wait = a.requests+1, data.Request
		return
	}
	a.rulings = append(a.rulings, ruled{*data.Decision, chunk.At})
}

// accepted returns the approvals of a turn that Temporal has accepted, in its own order.
func (c *checker) accepted(turnID string) (out []workflows.Approval) {
	for _, h := range c.runs[turnID] {
		for _, e := range h.Events {
			in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
			var approval workflows.Approval
			if in.GetName() == workflows.ApproveUpdate &&
				converter.GetDefaultDataConverter().FromPayloads(in.GetArgs(), &approval) == nil {
				out = append(out, approval)
			}
		}
	}
	return out
}

// people checks I5: every request has one decision, about which all ledgers agree; and no call that needs approval has
// run without it, before it, or against it.
func (c *checker) people() {
	for _, a := range c.asks {
		c.waited(a)
	}
	if c.Run.Asked == "" {
		return
	}
	runs := map[string][]time.Time{}
	for _, e := range c.Effects {
		if e.Event == "begun" || e.Event == "effect" {
			runs[e.Text] = append(runs[e.Text], e.At)
		}
	}
	for _, t := range c.sortedTurns() {
		for _, m := range t.transcript {
			for _, one := range m.ToolCalls {
				if m.TurnID == t.record.ID && strings.HasPrefix(keyOf(one), c.Run.Asked) {
					c.guarded(t, one, runs[keyOf(one)])
				}
			}
		}
	}
}

// waited checks one request.
func (c *checker) waited(a *asked) {
	if a.turn == nil || a.requests == 0 && len(a.rulings) == 0 && a.row == nil {
		return // a decision without a request must be refused; other checks show that it changed nothing
	}
	id := a.turn.record.ID
	if a.requests != 1 || len(a.rulings) != 1 {
		c.breaks(I5, "wait %s of turn %s was asked for %d times and has %d rulings", a.id, id, a.requests, len(a.rulings))
		return
	}
	r := a.rulings[0]
	switch {
	case a.row == nil || a.row.Decision == nil:
		c.breaks(I5, "wait %s of turn %s was ruled %s in the stream and is open in the journal", a.id, id, r.Status)
	case a.row.Decision.Status != r.Status || a.row.Decision.Allowed != r.Allowed ||
		a.row.ArgumentsHash != a.wait.ArgumentsHash:
		c.breaks(I5, "wait %s of turn %s was ruled %s in the stream and is %s in the journal", a.id, id, r.Status,
			a.row.Decision.Status)
	}
	if a.wait.Kind == turn.RequestApproval {
		c.decided(a, r)
	}
}

// decided compares the decision of an approval with what clients sent and were told, and with what Temporal has
// accepted.
func (c *checker) decided(a *asked, r ruled) {
	id := a.turn.record.ID
	if r.Allowed && r.ArgumentsHash != a.wait.ArgumentsHash {
		c.breaks(I5, "call %s of turn %s was allowed with arguments %.8s and waited with %.8s", a.id, id, r.ArgumentsHash,
			a.wait.ArgumentsHash)
	}
	if r.Status == turn.StatusCancelled || r.Status == turn.StatusExpired {
		return // not decided by a client; other checks show that such a call does not run
	}
	meant := false
	for _, e := range a.said {
		meant = meant || e.Event == Deciding && e.Allow == r.Allowed && e.Hash == a.wait.ArgumentsHash &&
			e.Session == a.turn.session
		if e.Event == Decided && e.Allow != r.Allowed {
			c.breaks(I5, "call %s of turn %s is %s, and somebody was told that the opposite counts", a.id, id, r.Status)
		}
	}
	if !meant {
		c.breaks(I5, "call %s of turn %s is %s, and nobody has said so", a.id, id, r.Status)
	}
	for _, approval := range a.accepted {
		if approval.Allow != r.Allowed || approval.ArgumentsHash != a.wait.ArgumentsHash {
			c.breaks(I5, "call %s of turn %s is %s, and Temporal has accepted another decision", a.id, id, r.Status)
		}
	}
}

// guarded checks a call that needs approval. ran holds the times at which its tool did something.
func (c *checker) guarded(t *turnLedger, one turn.ToolCall, ran []time.Time) {
	name := "call " + one.ID + " (" + keyOf(one) + ") of turn " + t.record.ID
	a := c.asks[call{t.record.ID, one.ID}]
	if a != nil && a.requests > 0 && a.wait.ArgumentsHash != journal.HashOf([]byte(one.Arguments)) {
		c.breaks(I5, "%s: people were asked about other arguments", name)
	}
	switch {
	case len(ran) == 0:
		return
	case a == nil || a.requests == 0:
		c.breaks(I5, "%s has run, and nobody was asked", name)
		return
	case len(a.rulings) == 0 || !a.rulings[0].Allowed:
		c.breaks(I5, "%s has run, and nobody has allowed it", name)
		return
	}
	allowed := a.rulings[0].at
	for _, e := range a.said {
		// of several decisions, the first may have counted
		if e.Event == Deciding && e.Allow && e.At.After(allowed) && len(a.said) <= 2 {
			allowed = e.At
		}
	}
	for _, at := range ran {
		if at.Before(allowed) {
			c.breaks(I5, "%s has run %s before it was allowed", name, allowed.Sub(at))
		}
	}
}
