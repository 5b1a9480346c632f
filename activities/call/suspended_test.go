package call

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// asksOn is a tool host whose tool asks again and again under the same key. Like the real host, it repeats the same
// elicitation if it receives no responses.
type asksOn struct {
	handed []string // what was sent: continuation and responses
}

func (*asksOn) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (a *asksOn) Call(_ context.Context, r turn.ToolRequest) (turn.ToolResult, error) {
	round := string(r.Continuation)
	again := round != "" && len(r.Responses) == 0
	if !again {
		a.handed = append(a.handed, fmt.Sprint(round, r.Responses))
		round = fmt.Sprintf("round %d", len(a.handed))
	}
	q := turn.Elicitation{Key: "sure", Message: round}
	return turn.ToolResult{Elicitations: []turn.Elicitation{q}, Continuation: []byte(round)}, nil
}

// claimable returns a journal with a turn whose model has requested one call, and that call.
func claimable(t *testing.T) (*journal.DB, workflows.CallInput) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	begun, err := db.Begin(t.Context(), turn.BeginInput{
		Session: "s", Turn: "t", WorkflowID: "s", RunID: "t", Message: turn.UserMessage{ID: "m", Text: "x"}, At: time.Now(),
	})
	require.NoError(t, err)
	key := journal.StepKey{Turn: "t", Step: 1}
	_, err = db.StartInference(t.Context(), journal.StartInference{Session: "s", Key: key, Expect: begun.Head})
	require.NoError(t, err)
	calls := []turn.ToolCall{{ID: "1.0", Tool: "mcp/x/y", Arguments: "{}"}}
	_, err = db.SettleInference(t.Context(),
		journal.SettleInference{Session: "s", Key: key, Attempt: 1, Message: turn.Message{ToolCalls: calls}})
	require.NoError(t, err)
	return db, workflows.CallInput{
		Session: "s", Turn: "t", Step: 1, Call: turn.ToolCall{ID: "1.0", Tool: "mcp/x/y"},
		Tool: turn.Tool{ID: "mcp/x/y"}, Timeout: time.Second, ServerWait: time.Second, Budget: time.Minute,
	}
}

// TestRepliesAreForTheQuestionsOfOneAttempt checks attempts whose results are lost: the results of attempts 2 and
// 3 never reach the workflow, so attempts 3 and 4 carry the responses to the elicitation of the first one.
func TestRepliesAreForTheQuestionsOfOneAttempt(t *testing.T) {
	db, in := claimable(t)
	host := &asksOn{}
	a := newRunner(t, allowing{db, in}, Options{Tools: host})
	attempt := func(attempt int) workflows.CallResult {
		in.Attempt = attempt
		res, err := a.CallTool(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, res.Elicitations, 1)
		return res
	}
	in.ElicitationAttempt = attempt(1).ElicitationAttempt
	assert.Equal(t, 1, in.ElicitationAttempt)
	in.Responses = []turn.ElicitationResponse{{Key: "sure", Action: turn.ElicitationAccept}}
	second := attempt(2)
	assert.Equal(t, second, noBusy(attempt(3), second), "the same is asked, of the same attempt")
	assert.Equal(t, second, noBusy(attempt(4), second))
	in.ElicitationAttempt = second.ElicitationAttempt
	assert.Equal(t, "round 3", attempt(5).Elicitations[0].Message)
	assert.Len(t, host.handed, 3, "each reply was handed over once, to its question: %v", host.handed)
}

// noBusy returns r with the busy time of like, so that the rest can be compared.
func noBusy(r, like workflows.CallResult) workflows.CallResult {
	r.Busy = like.Busy
	return r
}
