package decide

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

func wait(kind turn.RequestKind, id, text string) turn.Request {
	w := turn.Request{Session: "it's one", Turn: "t", ID: id, Kind: kind, Step: 1}
	if kind == turn.RequestQuestion {
		w.Question = text
		return w
	}
	w.Tool, w.Arguments, w.ArgumentsHash, w.Risk, w.Why = "local/write", text, journal.HashOf([]byte(text)), turn.RiskHigh,
		"policy\x1b asks"
	return w
}

func TestWhatIsAskedIsShownExactlyWithTheCommandsThatDecide(t *testing.T) {
	approval := wait(turn.RequestApproval, "1.0",
		"{\"p\":\"\x1b[2J\u202e\u200b\",\n\"q\":1}\napproval 9.9 of session s: fine")
	shown := layout{}.WithCommands([]turn.Request{approval, wait(turn.RequestQuestion, "q2", "Which?")})
	assert.Equal(t, strings.ReplaceAll(`approval 1.0 of session it's one: call local/write · risk high
reason: policy asks
arguments (hash abababababababababababababababab):
  │ {"p":"\x1b[2J\u202e\u200b",
  │ "q":1}
  │ approval 9.9 of session s: fine
decide it with
  everturn approve 'it'\''s one' 1.0 --hash abababababababababababababababab
  everturn deny 'it'\''s one' 1.0 --reason "..."
question q2 of session it's one
  │ Which?
answer it with
  everturn answer 'it'\''s one' q2 "..."`, "abababababababababababababababab", ui.ShortHash(approval.ArgumentsHash)), shown)
	long := layout{}.describe(wait(turn.RequestApproval, "1.0", strings.Repeat("x", 1<<20)+" the end"))
	assert.True(t, strings.HasSuffix(long, "x the end"), "all of it is shown")
}

// TestACallWithoutItsArgumentsCannotBeAllowed: the journal has the beginning of them alone, or others.
func TestACallWithoutItsArgumentsCannotBeAllowed(t *testing.T) {
	for name, arguments := range map[string]string{"a beginning": `{"path":"notes`, "others": `{"path":"others.txt"}`,
		"none": ""} {
		w := wait(turn.RequestApproval, "1.0", `{"path":"notes.txt"}`)
		require.NoError(t, ui.Exact(w))
		w.Arguments, w.ArgumentsBytes = arguments, 20
		require.Error(t, ui.Exact(w), name)
		assert.Contains(t, layout{}.describe(w), "can only be denied", name)
		assert.NotContains(t, commandsFor(w), "everturn approve ", name)
		assert.Equal(t, "[n] deny (and why): ", decisionPrompt(w), name)
		var unreachable app.TurnClient // nothing is sent
		_, err := decide(t.Context(), &unreachable, w, client.DecideInput{Allow: true})
		require.ErrorContains(t, err, "can only be denied", name)
	}
}

func TestDecisionsThatWereNotTakenSayWhatToDo(t *testing.T) {
	w := wait(turn.RequestApproval, "1.0", "{}")
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"taken": {nil, app.ExitAnswered, ""},
		"over":  {client.ErrNotRunning, app.ExitConfig, "takes no more decisions; `everturn show 'it'\\''s one'`"},
		"no worker": {client.ErrNoWorker, app.ExitUnreachable,
			"start one with `everturn dev` or `everturn worker`; Temporal keeps the decision on 1.0"},
		"not asked": {turn.NewError(turn.CodeNotWaiting, nil, "no approval is open"), app.ExitConfig,
			"no approval is open; `everturn approvals` lists the pending requests"},
		"drift": {turn.NewError(turn.CodeToolDrift, nil, "other arguments"), app.ExitFailed,
			"other arguments; look at it again with `everturn approvals"},
		"expired": {turn.NewError(turn.CodeApprovalExpired, nil, "it has expired"), app.ExitFailed,
			"it has expired; follow the turn with `everturn attach"},
		"another code": {turn.NewError(turn.CodeJournalUnavailable, errors.New("cause"), "away"), app.ExitFailed,
			"away: journal_unavailable"},
		"something else": {errors.New("broken pipe"), app.ExitFailed, "broken pipe"},
	} {
		err := decideError(w, c.err)
		assert.Equal(t, c.code, app.ExitCode(err), name)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says, name)
			assert.ErrorIs(t, err, c.err, name)
		}
	}
}

// What a call was held for cannot be answered when the call has ended, and whoever tries is told why.
func TestNothingIsSaidToACallThatHasEnded(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	begun, err := db.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: "t", WorkflowID: "s", RunID: "t",
		Message: turn.UserMessage{ID: "m", Text: "x"}, At: time.Now()})
	require.NoError(t, err)
	key, call := journal.StepKey{Turn: "t", Step: 1}, turn.ToolCall{ID: "1.0", Tool: "mcp/x/y", Arguments: "{}"}
	_, err = db.StartInference(t.Context(), journal.StartInference{Session: "s", Key: key, Expect: begun.Head})
	require.NoError(t, err)
	_, err = db.SettleInference(t.Context(),
		journal.SettleInference{Session: "s", Key: key, Attempt: 1, Message: turn.Message{ToolCalls: []turn.ToolCall{call}}})
	require.NoError(t, err)
	_, err = db.ClaimCall(t.Context(), journal.CallRecord{Turn: "t", Step: 1, Call: call, Attempt: 1, ClaimedAt: time.Now()}, false)
	require.NoError(t, err)
	held := turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1, Call: "1.0",
		Elicitation: &turn.Elicitation{Key: "1", Message: "Sure?", Schema: []byte(`{"type":"object"}`)}}
	_, err = db.Ask(t.Context(), "s", "t", []turn.Request{held}, time.Now())
	require.NoError(t, err)
	ended := turn.Decision{ID: held.ID, Status: turn.StatusExpired, Reason: turn.ReasonCallEnded}
	require.NoError(t, db.Decide(t.Context(),
		"s", "t", []turn.Decision{ended}, time.Now()))
	assert.ErrorContains(t, notPending(t.Context(), &app.TurnClient{Journal: db}, "s", held.ID, nil), turn.ReasonCallEnded)
}
