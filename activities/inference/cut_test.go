package inference_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/workflows/turn"
)

// inferRaw requests a completion from a provider that sends these events.
func inferRaw(t *testing.T, w inference.Wire, events ...string) (turn.Completion, error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: "+strings.Join(events, "\n\ndata: ")+"\n\n")
	}))
	t.Cleanup(s.Close)
	return chatOf(t, s.URL, speaking(w)).Infer(t.Context(), prompt("hello"), newRecorder())
}

// TestWhatAProviderCallsIncompleteIsNotWhole has the words and statuses by which providers say that a completion is
// cut, besides those of the APIs' documentation.
func TestWhatAProviderCallsIncompleteIsNotWhole(t *testing.T) {
	const chatCall = `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"local_x","arguments":"{}"}}]}}]}`
	finish := func(reason string) string { return `{"choices":[{"delta":{},"finish_reason":"` + reason + `"}]}` }
	for _, reason := range []string{"abort", "ERROR", "cancelled", "insufficient_system_resource"} {
		_, err := inferRaw(t, chat.Wire{}, chatCall, finish(reason), "[DONE]")
		assert.Error(t, err, reason)
	}
	item := func(status string) string {
		return `{"type":"function_call","id":"f","call_id":"a","name":"local_x","arguments":"{}","status":"` + status + `"}`
	}
	const ended = `{"type":"response.completed","response":{"status":"`
	const begin = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"local_x","input":{}}}`
	const end = `{"type":"content_block_stop","index":0}`
	stop := func(reason string) string { return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"}}` }
	for name, c := range map[string]struct {
		wire   inference.Wire
		events []string
		want   turn.StopCause
	}{
		"filter": {chat.Wire{}, []string{chatCall, finish("content_filter: PROHIBITED_CONTENT"), "[DONE]"},
			turn.StopContentFilter},
		"in progress": {responses.Wire{}, []string{ended + `in_progress","output":[` + item("completed") + `]}}`},
			turn.StopLength},
		"details": {responses.Wire{}, []string{ended + `completed","incomplete_details":{"reason":"max_output_tokens"},"output":[` +
			item("completed") + `]}}`}, turn.StopLength},
		"two reasons": {messages.Wire{}, []string{begin, end, stop("max_tokens"), stop("end_turn"),
			`{"type":"message_stop"}`},
			turn.StopLength},
	} {
		done, err := inferRaw(t, c.wire, c.events...)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, done.Stop(), name)
	}
	_, err := inferRaw(t, responses.Wire{}, ended+`completed","output":[`+item("incomplete")+`]}}`)
	assert.Error(t, err, "the call is incomplete")
	_, err = inferRaw(t, messages.Wire{}, stop("end_turn"), begin)
	assert.Error(t, err, "the call begins after the end and is not complete")
}

func TestACallThatIsSentTwiceRunsOnce(t *testing.T) {
	const call = `{"id":"a","function":{"name":"local_x","arguments":"{}"},"index":`
	done, err := inferRaw(t, chat.Wire{}, `{"choices":[{"delta":{"tool_calls":[`+call+`0},`+call+`1}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
	require.NoError(t, err)
	assert.Len(t, done.ToolCalls, 1)
	const item = `{"type":"function_call","id":"f","call_id":"a","name":"local_x","arguments":"{}","status":"completed"}`
	done, err = inferRaw(t, responses.Wire{},
		`{"type":"response.completed","response":{"status":"completed","output":[`+item+`,`+item+`]}}`)
	require.NoError(t, err)
	assert.Len(t, done.ToolCalls, 1)
}
