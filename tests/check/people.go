package check

import (
	"encoding/json"
	"slices"
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
	turn      *turnLedger
	id        string
	wait      turn.Request
	requests  int
	decisions []timedDecision
	row       *turn.Request
	client    []Entry // deciding, decided and refused, of this request
	accepted  []workflows.DecideInput
}

// timedDecision is a decision and the time at which the stream had it.
type timedDecision struct {
	turn.Decision
	at time.Time
}

// indexWaits files every line about a request under its turn and request ID.
func (c *checker) indexWaits() {
	c.asks = map[call]*asked{}
	for _, t := range c.sorted {
		for _, event := range t.events {
			c.indexAsked(t, event)
		}
	}
	for i, w := range c.Waits {
		c.ask(w.Turn, w.ID).row = &c.Waits[i]
	}
	for _, e := range c.Client {
		if e.Event == Deciding || e.Event == Decided || e.Event == Refused {
			a := c.ask(e.Turn, e.Call)
			a.client = append(a.client, e)
		}
	}
	for id := range c.runs {
		for _, approval := range c.accepted(id) {
			a := c.ask(id, approval.Request)
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

func (c *checker) indexAsked(t *turnLedger, event turn.Event) {
	switch event.Kind {
	case turn.EventApprovalRequested, turn.EventQuestionAsked, turn.EventApprovalDecided, turn.EventQuestionAnswered:
	default:
		return
	}
	var data turn.Request
	if err := json.Unmarshal(event.Data, &data); err != nil {
		c.breaks(I5, "event %d of turn %s cannot be read: %v", event.Index, t.record.ID, err)
		return
	}
	a := c.ask(t.record.ID, data.ID)
	if data.Decision == nil {
		a.requests, a.wait = a.requests+1, data
		return
	}
	a.decisions = append(a.decisions, timedDecision{*data.Decision, event.At})
}

// accepted returns the approvals of a turn that Temporal has accepted, in its own order.
func (c *checker) accepted(turnID string) (out []workflows.DecideInput) {
	for _, h := range c.runs[turnID] {
		for _, e := range h.Events {
			in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
			var approval workflows.DecideInput
			if in.GetName() == workflows.DecideUpdate &&
				converter.GetDefaultDataConverter().FromPayloads(in.GetArgs(), &approval) == nil {
				out = append(out, approval)
			}
		}
	}
	return out
}

// decisions checks I5 in the journal: every request has one decision, about which stream and table agree.
func (c *checker) decisions() {
	for _, a := range c.asks {
		c.waited(a)
	}
}

// people checks I5 against what clients sent and were told: no call that needs approval has run without it, before it,
// or against it.
func (c *checker) people() {
	for _, a := range c.asks {
		c.heard(a)
	}
	if c.Run.Asked == "" {
		return
	}
	for _, t := range c.sortedTurns() {
		for _, m := range t.transcript {
			for _, one := range m.ToolCalls {
				if m.TurnID == t.record.ID && strings.HasPrefix(keyOf(one), c.Run.Asked) {
					c.withApprovals(t, one)
				}
			}
		}
	}
}

// waited checks one request.
func (c *checker) waited(a *asked) {
	if a.turn == nil || a.requests == 0 && len(a.decisions) == 0 && a.row == nil {
		return // a decision without a request
	}
	id := a.turn.record.ID
	if a.requests != 1 || len(a.decisions) != 1 {
		c.breaks(I5, "wait %s of turn %s was asked for %d times and has %d decisions", a.id, id, a.requests, len(a.decisions))
		return
	}
	r := a.decisions[0]
	switch {
	case a.row == nil || a.row.Decision == nil:
		c.breaks(I5, "wait %s of turn %s was decided %s in the stream and is open in the journal", a.id, id, r.Status)
	case a.row.Decision.Status != r.Status || a.row.Decision.Allowed != r.Allowed ||
		a.row.ArgumentsHash != a.wait.ArgumentsHash:
		c.breaks(I5, "wait %s of turn %s was decided %s in the stream and is %s in the journal", a.id, id, r.Status,
			a.row.Decision.Status)
	}
	if r.Status == turn.StatusAnswered && a.wait.Kind == turn.RequestQuestion && !a.answered() {
		c.breaks(I5, "question %s of turn %s counts as answered, and the transcript has no answer", a.id, id)
	}
}

// answered reports whether a user's message follows the question: its answer, or one that joined the turn. If the turn
// was stopped, none may.
func (a *asked) answered() bool {
	if a.turn.record.State != turn.StateCompleted {
		return true
	}
	i := slices.IndexFunc(a.turn.transcript, func(m turn.Message) bool {
		return m.TurnID == a.turn.record.ID && m.Step == a.wait.Step && m.Role == turn.RoleAssistant
	})
	return i >= 0 && i+1 < len(a.turn.transcript) && a.turn.transcript[i+1].Role == turn.RoleUser
}

// heard checks that what a client was told about its decision is true.
func (c *checker) heard(a *asked) {
	told := slices.ContainsFunc(a.client, func(e Entry) bool { return e.Event == Decided })
	switch {
	case told && (a.turn == nil || len(a.decisions) == 0):
		c.breaks(I5, "a client was told that its decision about %s counts, which no turn has asked for", a.id)
	case a.turn == nil || len(a.decisions) != 1 || a.wait.Kind != turn.RequestApproval:
	case a.decisions[0].Status != turn.StatusCancelled && a.decisions[0].Status != turn.StatusExpired:
		c.decided(a, a.decisions[0])
	case told && a.turn.record.State == turn.StateCompleted:
		c.breaks(I5, "call %s of turn %s is %s, and a client was told that its decision counts", a.id, a.turn.record.ID,
			a.decisions[0].Status)
	}
}

// decided compares the decision of an approval with what clients sent and were told, and with what Temporal has
// accepted.
func (c *checker) decided(a *asked, r timedDecision) {
	id := a.turn.record.ID
	if r.Allowed && r.ArgumentsHash != a.wait.ArgumentsHash {
		c.breaks(I5, "call %s of turn %s was allowed with arguments %.8s and waited with %.8s", a.id, id, r.ArgumentsHash,
			a.wait.ArgumentsHash)
	}
	meant := false
	for _, e := range a.client {
		meant = meant || e.Event == Deciding && e.Allow == r.Allowed && e.Hash == a.wait.ArgumentsHash &&
			e.Session == a.turn.session && (e.By == "" || e.By == r.By)
		if e.Event == Decided && e.Allow != r.Allowed {
			c.breaks(I5, "call %s of turn %s is %s, and somebody was told that the opposite counts", a.id, id, r.Status)
		}
		if e.Event == Refused && e.By != "" && e.By == r.By {
			c.breaks(I5, "call %s of turn %s is %s by %s, who was refused", a.id, id, r.Status, r.By)
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

// withApprovals checks a call that needs approval.
func (c *checker) withApprovals(t *turnLedger, one turn.ToolCall) {
	name := "call " + one.ID + " (" + keyOf(one) + ") of turn " + t.record.ID
	a, ran := c.asks[call{t.record.ID, one.ID}], c.ran[call{t.record.ID, one.ID}].times()
	if a != nil && a.requests > 0 && a.wait.ArgumentsHash != journal.HashOf([]byte(one.Arguments)) {
		c.breaks(I5, "%s: people were asked about other arguments", name)
	}
	var allowed time.Time
	switch {
	case len(ran) == 0:
		return
	case a == nil || a.requests == 0:
		if allowed = c.grantedAt(t.session, one); allowed.IsZero() {
			c.breaks(I5, "%s has run without a request for approval", name)
			return
		}
	case len(a.decisions) == 0 || !a.decisions[0].Allowed:
		c.breaks(I5, "%s has run, and nobody has allowed it", name)
		return
	default:
		allowed = a.allowedAt()
	}
	for _, at := range ran {
		if at.Before(allowed) {
			c.breaks(I5, "%s has run %s before it was allowed", name, allowed.Sub(at))
		}
	}
}

// allowedAt returns when the call was allowed.
func (a *asked) allowedAt() time.Time {
	allowed, sent := a.decisions[0].at, 0
	for _, e := range a.client {
		if e.Event != Deciding {
			continue
		}
		if sent++; sent > 1 {
			return a.decisions[0].at // of several decisions, the first may have counted
		}
		if e.Allow && e.At.After(allowed) {
			allowed = e.At
		}
	}
	return allowed
}

// grantedAt returns when a client first sent a decision that also permits this call in its session.
func (c *checker) grantedAt(session string, one turn.ToolCall) (at time.Time) {
	hash := journal.HashOf([]byte(one.Arguments))
	for _, e := range c.Client {
		covers := e.Grant == turn.GrantTool || e.Grant == turn.GrantCall && e.Hash == hash
		if e.Event == Deciding && e.Allow && e.Session == session && e.Tool == one.Tool && covers &&
			(at.IsZero() || e.At.Before(at)) {
			at = e.At
		}
	}
	return at
}
