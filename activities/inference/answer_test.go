package inference_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

func TestTextStreamsAndComesBackWhole(t *testing.T) {
	c, sink, err := infer(t, fakellm.Text("one two three").Reasoning("hm").Usage(11, 3, 7).Model("m-2026"))
	require.NoError(t, err)
	assert.Equal(t, "one two three", c.Text)
	assert.Equal(t, "hm", c.Reasoning)
	assert.Equal(t, "stop", c.FinishReason)
	assert.Equal(t, "m-2026", c.Model)
	assert.Equal(t, turn.Usage{InputTokens: 11, OutputTokens: 3, CachedTokens: 7}, c.Usage)
	assert.Equal(t, []string{"one ", "two ", "three"}, sink.text)
	assert.Equal(t, []string{"hm"}, sink.reasoning)
}

func TestTextArrivesBeforeTheAnswerIsComplete(t *testing.T) {
	gate := fakellm.NewGate()
	s := fakellm.Start(t, fakellm.Text("one two").Hold(2, gate))
	c, sink := chatOf(t, s.URL()), newRecorder()
	done := make(chan error, 1)
	go func() {
		_, err := c.Infer(t.Context(), prompt("hello"), sink)
		done <- err
	}()
	<-gate.Reached()
	<-sink.heard
	gate.Release()
	require.NoError(t, <-done)
	assert.Equal(t, "one two", sink.all())
}

func TestParallelToolCallsAreAssembled(t *testing.T) {
	c, _, err := infer(t, fakellm.Calls(
		fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"ä.txt"}`},
		fakellm.ToolCall{ID: "own", Name: "local_list_files", Arguments: `{"path":"."}`},
	).WithText("Let me look."))
	require.NoError(t, err)
	assert.Equal(t, "Let me look.", c.Text)
	assert.Equal(t, "tool_calls", c.FinishReason)
	assert.Equal(t, []turn.ToolCall{
		{WireID: "call_s0_0", Tool: "local_read_file", Arguments: `{"path":"ä.txt"}`},
		{WireID: "own", Tool: "local_list_files", Arguments: `{"path":"."}`},
	}, c.ToolCalls)
}

// TestOddToolCallsAreUnderstood covers tool calls in formats that some servers use although OpenAI's documentation does
// not describe them.
func TestOddToolCallsAreUnderstood(t *testing.T) {
	finish := event(`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
	calls := func(parts ...string) fakellm.Reply {
		pieces := make([]string, 0, len(parts)+1)
		for _, p := range parts {
			pieces = append(pieces, event(`{"choices":[{"index":0,"delta":{"tool_calls":[`+p+`]}}]}`))
		}
		return fakellm.Raw(append(pieces, finish)...)
	}
	two := []turn.ToolCall{{WireID: "x", Tool: "a", Arguments: `{}`}, {WireID: "y", Tool: "b", Arguments: `{"n":1}`}}
	for name, c := range map[string]struct {
		reply fakellm.Reply
		want  []turn.ToolCall
	}{
		"no index": {calls(`{"id":"x","function":{"name":"a","arguments":"{}"}}`,
			`{"id":"y","function":{"name":"b","arguments":"{\"n\":"}}`, `{"id":"y","function":{"arguments":"1}"}}`), two},
		"no index, no id": {calls(`{"function":{"name":"a","arguments":"{"}}`, `{"function":{"arguments":"}"}}`),
			[]turn.ToolCall{{Tool: "a", Arguments: "{}"}}},
		"always index 0": {calls(`{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}`,
			`{"index":0,"id":"y","function":{"name":"b","arguments":"{\"n\":1}"}}`), two},
		"several at once": {
			calls(`{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"y","function":{"name":"b","arguments":"{\"n\":1}"}}`), two},
		"interleaved": {calls(`{"index":0,"id":"x","function":{"name":"a","arguments":"{"}}`,
			`{"index":1,"id":"y","function":{"name":"b","arguments":"{\"n\":"}}`, `{"index":0,"function":{"arguments":"}"}}`,
			`{"index":1,"function":{"arguments":"1}"}}`), two},
		"object arguments": {calls(`{"index":0,"id":"y","function":{"name":"b","arguments":{"n":1}}}`), two[1:]},
		"enormous index":   {calls(`{"index":999999999,"id":"x","function":{"name":"a","arguments":"{}"}}`), two[:1]},
		"negative index":   {calls(`{"index":-5,"id":"x","function":{"name":"a","arguments":"{}"}}`), two[:1]},
		"id repeated": {calls(`{"index":0,"id":"x","function":{"name":"a","arguments":"{"}}`,
			`{"index":0,"id":"x","function":{"name":"a","arguments":"}"}}`), two[:1]},
		"null where absent": {calls(`{"index":0,"id":"x","function":{"name":"a","arguments":null}}`,
			`{"index":0,"id":null,"function":{"name":null,"arguments":"{}"}}`), two[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			done, _, err := infer(t, c.reply)
			require.NoError(t, err)
			assert.Equal(t, c.want, done.ToolCalls)
		})
	}
}

func event(json string) string { return "data: " + json + "\n\n" }

func TestServersThatDoNotStreamAreUnderstood(t *testing.T) {
	c, sink, err := infer(t, fakellm.Calls(fakellm.ToolCall{ID: "c", Name: "a", Arguments: "{}"}).WithText(
		"all at once").Reasoning("hm").Usage(5, 6, 0).Plain())
	require.NoError(t, err)
	assert.Equal(t, "all at once", c.Text)
	assert.Equal(t, "all at once", sink.all())
	assert.Equal(t, []turn.ToolCall{{WireID: "c", Tool: "a", Arguments: "{}"}}, c.ToolCalls)
	assert.Equal(t, turn.Usage{InputTokens: 5, OutputTokens: 6}, c.Usage)
	assert.True(t, json.Valid(c.Raw))
}

// TestOddStreamsAreUnderstood covers deviations from the event stream format that some servers use.
func TestOddStreamsAreUnderstood(t *testing.T) {
	hi, end := `{"choices":[{"delta":{"content":"hi"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for name, body := range map[string]string{
		"CRLF":                "data: " + hi + "\r\n\r\ndata: " + end + "\r\n\r\n",
		"no blank lines":      "data: " + hi + "\ndata: " + end + "\ndata: [DONE]\n",
		"no space":            "data:" + hi + "\n\ndata:" + end + "\n\n",
		"no DONE, no newline": "data: " + hi + "\n\ndata: " + end,
		"other fields":        "event: message\nid: 7\nretry: 10\ndata: " + hi + "\n\ndata: " + end + "\n\n",
		"over several lines":  "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: " + end + "\n\n",
		"byte order mark":     "\xEF\xBB\xBFdata: " + hi + "\n\ndata: " + end + "\n\n",
		"leading blank lines": "\n\n\ndata: " + hi + "\n\ndata: " + end + "\n\n",
		"lines of JSON":       hi + "\n" + end + "\n",
		"content parts": "data: " +
			`{"choices":[{"delta":{"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}}]}` + "\n\ndata: " + end +
			"\n\n",
		"unknown types": "data: " +
			`{"model":7,"usage":"none","choices":[{"delta":{"content":"hi","refusal":false,"reasoning":{}}}]}` + "\n\ndata: " +
			end + "\n\n",
		"second choice": "data: " +
			`{"choices":[{"index":0,"delta":{"content":"hi"}},{"index":1,"delta":{"content":"no"}}]}` + "\n\ndata: " + end +
			"\n\n",
		"broken after the end": "data: " + hi + "\n\ndata: " + end + "\n\ndata: {{{\n\n",
		"refusal": "data: " + `{"choices":[{"delta":{"content":null,"refusal":"hi"}}]}` + "\n\ndata: " + end +
			"\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, sink, err := infer(t, fakellm.Raw(body))
			require.NoError(t, err)
			assert.Equal(t, "hi", c.Text)
			assert.Equal(t, "hi", sink.all())
			assert.Equal(t, "stop", c.FinishReason)
			assert.True(t, json.Valid(c.Raw), "%s", c.Raw)
		})
	}
}

func TestKeepAlivesAreNoFault(t *testing.T) {
	c, _, err := infer(t, fakellm.Text("hi").KeepAlives(2000)) // go-openai's own reader gives up after 300
	require.NoError(t, err)
	assert.Equal(t, "hi", c.Text)
}

func TestBadBytesAreReplaced(t *testing.T) {
	c, sink, err := infer(t, fakellm.Raw(
		event(`{"choices":[{"delta":{"content":"a`+"\xff"+
			`b\u0000c","tool_calls":[{"index":0,"id":"i\u0000","function":{"name":"n","arguments":"`+"\xfe"+`"}}]}}]}`),
		event(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)))
	require.NoError(t, err)
	assert.Equal(t, "a\uFFFDb\uFFFDc", c.Text)
	assert.Equal(t, c.Text, sink.all())
	assert.Equal(t, []turn.ToolCall{{WireID: "i\uFFFD", Tool: "n", Arguments: "\uFFFD"}}, c.ToolCalls)
	assert.True(t, json.Valid(c.Raw))
}

func TestMissingUsageIsEstimatedAndMarked(t *testing.T) {
	for name, s := range map[string]fakellm.Script{
		"none": fakellm.Text("12345678"),
		"nonsense": fakellm.Raw(
			event(`{"choices":[{"delta":{"content":"12345678"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-4,"completion_tokens":1e300}}`)),
	} {
		t.Run(name, func(t *testing.T) {
			server := fakellm.Start(t, s)
			c, err := chatOf(t, server.URL()).Infer(t.Context(), prompt("hello"), newRecorder())
			require.NoError(t, err)
			sent := len(server.Requests()[0].Body)
			assert.Equal(t, turn.Usage{InputTokens: int64(sent+3) / 4, OutputTokens: 2, Estimated: true}, c.Usage)
		})
	}
}

func TestRawKeepsWhatIsNotUnderstood(t *testing.T) {
	first := `{"choices":[{"delta":{"content":"hi","thought_signature":"s1"}}],"provider":{"x":1}}`
	c, _, err := infer(t, fakellm.Raw(event(first), event(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)))
	require.NoError(t, err)
	var events []json.RawMessage
	require.NoError(t, json.Unmarshal(c.Raw, &events))
	require.Len(t, events, 2)
	assert.Equal(t, first, string(events[0]))
}

func TestRawIsBoundedAndSaysSo(t *testing.T) {
	c, _, err := infer(t, fakellm.Text(strings.Repeat("word ", 500)), func(o *inference.Options) { o.MaxRawBytes = 1000 })
	require.NoError(t, err)
	assert.Less(t, len(c.Raw), 1100)
	var events []map[string]any
	require.NoError(t, json.Unmarshal(c.Raw, &events))
	assert.Contains(t, events[len(events)-1], "everturn_dropped")
	assert.Len(t, c.Text, 2500)
}

func TestLengthIsACompleteAnswer(t *testing.T) {
	c, _, err := infer(t, fakellm.Text("cut by the").Finish("length"))
	require.NoError(t, err)
	assert.Equal(t, "length", c.FinishReason)
}

func TestACompleteAnswerSurvivesAnUglyEnd(t *testing.T) {
	for name, r := range map[string]fakellm.Reply{
		"reset": fakellm.Text("hi").ResetAfter(3),
		"stall": fakellm.Text("hi").StallAfter(3), // waits for the tail timeout of two seconds
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			c, err := chatOf(t, fakellm.Start(t, r).URL()).Infer(ctx, prompt("hello"), newRecorder())
			require.NoError(t, err)
			assert.Equal(t, "hi", c.Text)
			assert.NoError(t, ctx.Err(), "it came long before the idle timeout")
		})
	}
}

func TestACompleteAnswerSurvivesItsCallersCancel(t *testing.T) {
	s := fakellm.Start(t, fakellm.Raw(
		event(`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`), "data: [DONE]\n\n").Hold(1,
		fakellm.NewGate()))
	ctx, cancel := context.WithCancel(t.Context())
	sink := newRecorder()
	go func() {
		<-sink.heard
		cancel()
	}()
	c, err := chatOf(t, s.URL()).Infer(ctx, prompt("hello"), sink)
	require.NoError(t, err, "it is paid for")
	assert.Equal(t, "hi", c.Text)
}
