package sessionmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

// inOrder returns a session of two turns: one with an approval, into which m2 was merged, and one for m3. The ledgers
// have only what the model itself compares; package check has tests of its own.
func inOrder() (*Model, check.Ledgers) {
	m := New("s")
	for i, s := range []Sent{{ID: "m1"}, {ID: "m2"}, {ID: "m3", After: true}} {
		s.Order = i + 1
		m.Take(s)
	}
	message := func(id, turnID string) journal.ExportLine {
		return journal.ExportLine{Message: &journal.ExportMessage{
			Message: turn.Message{ID: id, TurnID: turnID, Role: turn.RoleUser, Text: Text("s", id, nil)}}}
	}
	answered := func(id, first string) journal.ExportLine {
		return journal.ExportLine{Turn: &journal.ExportTurn{TurnRecord: journal.TurnRecord{ID: id, MessageID: first,
			State: turn.StateCompleted, Reason: turn.FinishAnswered}}}
	}
	return m, check.Ledgers{
		Sessions: []check.Session{{Lines: []journal.ExportLine{
			answered("t1", "m1"), answered("t2", "m3"), message("m1", "t1"), message("m2", "t1"), message("m3", "t2"),
			{Call: &journal.CallRecord{Turn: "t1", Call: turn.ToolCall{ID: "1.0"}, Runs: 1, Outcome: turn.OutcomeOK}},
		}}},
		Waits: []turn.Request{{Turn: "t1", ID: "1.0", Kind: turn.RequestApproval, Step: 1,
			Decision: &turn.Decision{Status: turn.StatusAllowed, Allowed: true}}},
	}
}

func TestTheModelReportsWhatIsNotInOrder(t *testing.T) {
	for says, spoil := range map[string]func([]journal.ExportLine){
		"m1 was accepted before m2":   func(l []journal.ExportLine) { l[2], l[3] = l[3], l[2] },
		"joined that of m1":           func(l []journal.ExportLine) { l[4].Message.Message.TurnID = "t1" },
		"its turn ended as failed":    func(l []journal.ExportLine) { l[1].Turn.State = turn.StateFailed },
		"was allowed and did not run": func(l []journal.ExportLine) { l[5].Call.Runs = 0 },
	} {
		t.Run(says, func(t *testing.T) {
			m, l := inOrder()
			assert.NotContains(t, strings.Join(m.Check(l), "\n"), says)
			spoil(l.Sessions[0].Lines)
			assert.Contains(t, strings.Join(m.Check(l), "\n"), says)
		})
	}
}
