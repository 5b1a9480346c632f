package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// An imported journal may hold anything: nothing of it moves the cursor.
func TestListAndShowPrintNoEscapes(t *testing.T) {
	const esc = "\x1b]0;x\a\u202e"
	record := journal.TurnRecord{ID: esc, State: turn.StateCompleted, Reason: esc, Code: esc, Message: esc}
	call := journal.CallRecord{Step: 1, Call: turn.ToolCall{ID: esc, Tool: esc}, Outcome: turn.OutcomeError, Code: esc}
	request := journal.RequestRecord{Session: esc,
		Request: turn.Request{ID: esc, Kind: turn.RequestApproval, Tool: esc, Risk: esc, Why: esc}}
	var b strings.Builder
	turnHistory{
		Turn: record, Calls: []journal.CallRecord{call}, Requests: []journal.RequestRecord{request},
		Inferences: []journal.Inference{{Key: journal.StepKey{Step: 1}, Model: esc}},
	}.print(&b, []turn.Message{{TurnID: esc, Role: turn.RoleUser, Text: esc}})
	for _, shown := range []string{b.String(), ending(record), layout{}.describe(request)} {
		assert.False(t, strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && unseen(r) }), "%q", shown)
	}
}

// A dispatch that hands over an answer is no second run: people look here for what was done twice.
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

// What a call was held for cannot be answered when the call has ended, and whoever tries is told why.
func TestNothingIsSaidToACallThatHasEnded(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	begun, err := s.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: "t", WorkflowID: "s", RunID: "t",
		Message: turn.UserMessage{ID: "m", Text: "x"}, At: time.Now()})
	require.NoError(t, err)
	key, call := journal.StepKey{Turn: "t", Step: 1}, turn.ToolCall{ID: "1.0", Tool: "mcp/x/y", Arguments: "{}"}
	_, err = s.StartInference(t.Context(), journal.StartInference{Session: "s", Key: key, Expect: begun.Head})
	require.NoError(t, err)
	_, err = s.SettleInference(t.Context(),
		journal.SettleInference{Session: "s", Key: key, Attempt: 1, Message: turn.Message{ToolCalls: []turn.ToolCall{call}}})
	require.NoError(t, err)
	_, err = s.ClaimCall(t.Context(), journal.ClaimInput{Turn: "t", Step: 1, Call: call, Attempt: 1, At: time.Now()})
	require.NoError(t, err)
	held := turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1, Call: "1.0",
		Elicitation: &turn.Elicitation{Key: "1", Message: "Sure?", Schema: []byte(`{"type":"object"}`)}}
	_, err = s.Ask(t.Context(), turn.AskInput{Session: "s", Turn: "t", Requests: []turn.Request{held}, At: time.Now()})
	require.NoError(t, err)
	ended := turn.Decision{ID: held.ID, Status: turn.StatusExpired, Reason: turn.ReasonCallEnded}
	require.NoError(t, s.Decide(t.Context(),
		turn.DecideInput{Session: "s", Turn: "t", Decisions: []turn.Decision{ended}, At: time.Now()}))
	assert.ErrorContains(t, (&turnClient{store: s}).notPending(t.Context(), "s", held.ID, nil), turn.ReasonCallEnded)
}
