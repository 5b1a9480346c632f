package items

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// event makes an event of step 1.
func event(t *testing.T, kind turn.EventKind, text string, data any) turn.Event {
	t.Helper()
	e := turn.Event{Turn: "t", Step: 1, Kind: kind, Text: text}
	if data != nil {
		b, err := json.Marshal(data)
		require.NoError(t, err)
		e.Data = b
	}
	return e
}

// story describes changes, one in a line.
func story(changes []Change) string {
	var lines []string
	for _, c := range changes {
		line := string(c.Do)
		if c.Item != nil {
			line += fmt.Sprintf(" %s %s", c.Item.ID, c.Item.Kind)
		}
		switch {
		case c.Progress != nil:
			line += " " + c.Progress.Output
		case c.Do == Extend:
			line += " " + c.Text
		case c.Do == Finish:
			line += " " + string(c.Done.State)
		case c.Do == End && c.Item.Kind == Call:
			line += " " + string(c.Item.Call.Outcome) + " " + c.Item.Call.Arguments
		case c.Do == End:
			line += " " + c.Item.Text
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestFold(t *testing.T) {
	call := turn.CallEvent{CallID: "1.0", Tool: "local/read_file", Arguments: `{"path":"a"}`}
	ended := turn.CallEvent{CallID: "1.0", Tool: "local/read_file", Outcome: turn.OutcomeOK, Preview: "text"}
	asked := turn.Request{ID: "1.0", Kind: turn.RequestApproval}
	decided := asked
	decided.Decision = &turn.Decision{ID: "1.0", Status: turn.StatusAllowed, Allowed: true}
	var f Fold
	var all []Change
	for _, e := range []turn.Event{
		event(t, turn.EventTurnStarted, "", turn.StartedEvent{}),
		event(t, turn.EventReasoningDelta, "Hm", nil),
		event(t, turn.EventTextDelta, "Fir", nil),
		event(t, turn.EventAttemptRestarted, "", nil),
		event(t, turn.EventTextDelta, "I read ", nil),
		event(t, turn.EventTextDelta, "a.", nil),
		event(t, turn.EventInferenceCompleted, "", turn.InferenceEvent{}),
		event(t, turn.EventApprovalRequested, "", asked),
		event(t, turn.EventApprovalDecided, "", decided),
		event(t, turn.EventToolCallStarted, "", call),
		event(t, turn.EventToolProgress, "", turn.ProgressEvent{CallID: "1.0",
			ToolProgress: turn.ToolProgress{Output: "line"}}),
		event(t, turn.EventToolCallCompleted, "", ended),
		event(t, turn.EventPlan, "", plan.Progress{}),
		event(t, turn.EventMessageAdded, "", turn.MessageEvent{Text: "Also b."}),
		event(t, turn.EventTextDelta, "Done.", nil),
		event(t, turn.EventTurnCompleted, "", turn.DoneEvent{State: turn.StateCompleted}),
	} {
		all = append(all, f.Add(e)...)
	}
	assert.Equal(t, `begin 1 reasoning
extend 1 reasoning Hm
end 1 reasoning Hm
begin 2 message
extend 2 message Fir
withdraw 1 reasoning
withdraw 2 message
begin 3 message
extend 3 message I read 
extend 3 message a.
end 3 message I read a.
begin 4 request
end 4 request 
begin 5 call
extend 5 call line
end 5 call ok {"path":"a"}
begin 6 plan
end 6 plan 
begin 7 user
end 7 user Also b.
begin 8 message
extend 8 message Done.
end 8 message Done.
finish completed`, story(all))
}

// A turn waits as long as a request is open. Events of unknown kinds, and data that cannot be read, change nothing.
func TestFoldOfOddEvents(t *testing.T) {
	var f Fold
	assert.Empty(t, f.Add(event(t, "something_new", "x", nil)))
	assert.Empty(t, f.Add(turn.Event{Kind: turn.EventToolCallStarted, Data: json.RawMessage(`[]`)}))
	assert.Empty(t, f.Add(turn.Event{Kind: turn.EventPlan, Data: json.RawMessage(`7`)}))
	assert.False(t, f.Waiting())
	f.Add(event(t, turn.EventQuestionAsked, "", turn.Request{ID: "q1", Kind: turn.RequestQuestion}))
	assert.True(t, f.Waiting())
	f.Add(event(t, turn.EventQuestionAnswered, "", turn.Request{ID: "q1", Decision: &turn.Decision{}}))
	assert.False(t, f.Waiting())
	assert.Equal(t, "finish ", story(f.Add(turn.Event{Kind: turn.EventTurnCompleted})))
}
