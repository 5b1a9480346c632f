package look

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// An imported journal may hold anything: nothing of it moves the cursor.
func TestListAndShowPrintNoEscapes(t *testing.T) {
	const esc = "\x1b]0;x\a\u202e"
	record := journal.TurnRecord{ID: esc, State: turn.StateCompleted, Reason: esc, Code: esc, Message: esc}
	call := journal.CallRecord{Step: 1, Call: turn.ToolCall{ID: esc, Tool: esc}, Outcome: turn.OutcomeError, Code: esc}
	request := turn.Request{Session: esc,
		ID: esc, Kind: turn.RequestApproval, Tool: esc, Risk: esc, Why: esc}
	var b strings.Builder
	printTurn(&b, client.TurnHistory{
		Turn: record, Calls: []journal.CallRecord{call}, Requests: []turn.Request{request},
		Inferences: []journal.Inference{{Key: journal.StepKey{Step: 1}, Model: esc}},
	}, []turn.Message{{TurnID: esc, Role: turn.RoleUser, Text: esc}}, "")
	for _, shown := range []string{b.String(), ending(record)} {
		assert.False(t, strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && app.Unseen(r) }), "%q", shown)
	}
}

// An attempt that hands over an answer is no second run: people look here for what was done twice.
func TestGoingOnWithACallIsNoSecondRun(t *testing.T) {
	for want, c := range map[string]journal.CallRecord{
		"ran 0 times": {},
		"ran 1 time":  {Runs: 1, Suspended: 1},
		"ran 1 time, continued 1 time after an elicitation":  {Runs: 2, Suspended: 1},
		"ran 1 time, continued 2 times after an elicitation": {Runs: 3, Suspended: 2},
		"ran or continued 3 times":                           {Runs: 3, Suspended: 1, Repeatable: true},
		"ran 2 times":                                        {Runs: 2, Repeatable: true},
	} {
		assert.Equal(t, want, ran(c))
	}
}
