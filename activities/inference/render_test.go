package inference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// sent returns the request that the provider receives for each prompt.
func sent(t *testing.T, prompts ...turn.Prompt) []fakellm.Request {
	t.Helper()
	s := fakellm.Start(t, fakellm.Text("ok"))
	c := chatOf(t, s.URL())
	for _, p := range prompts {
		_, err := c.Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
	}
	return s.Requests()
}

// transcript returns a random transcript: user messages, answers, calls with their results, unusual texts.
func transcript(r *rand.Rand, n int) []turn.Message {
	odd := []string{"", "plain", "ünï\u2028code", `"quoted" \ <b>&`, "line\nbreak", "\xff\xfe", "\x00",
		strings.Repeat("long ", 50)}
	var out []turn.Message
	for step := 1; len(out) < n; step++ {
		text := func() string { return odd[r.IntN(len(odd))] }
		if r.IntN(3) > 0 {
			out = append(out, turn.Message{Role: turn.RoleUser, Text: text()},
				turn.Message{Role: turn.RoleAssistant, Text: text()})
			continue
		}
		call := turn.Message{Role: turn.RoleAssistant, Text: text()}
		var results []turn.Message
		for i := range 1 + r.IntN(3) {
			c := turn.ToolCall{ID: turn.CallID(step, i), Tool: "mcp/srv/tool_" + text(), Arguments: `{"a":1}`}
			if r.IntN(2) == 0 {
				c.WireID = fmt.Sprintf("w%d_%d", step, i)
			}
			call.ToolCalls = append(call.ToolCalls, c)
			results = append(results, turn.Message{Role: turn.RoleTool, CallID: c.ID, Outcome: turn.OutcomeOK, Text: text()})
		}
		out = append(append(out, call), results...)
	}
	return out
}

// upToMessages returns the body up to the last message, without the bracket that closes the list.
func upToMessages(t *testing.T, body []byte) []byte {
	t.Helper()
	var fields struct {
		Messages json.RawMessage `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(body, &fields))
	at := bytes.Index(body, fields.Messages)
	require.Positive(t, at)
	return body[:at+len(fields.Messages)-1]
}

func TestALongerTranscriptExtendsTheBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	zero := 0.0
	for range 30 {
		all := transcript(r, 12)
		base := turn.Prompt{Model: "m", System: "You help.",
			Tools: []turn.WireTool{{Name: "a", Schema: json.RawMessage(`{"z":1,"a":{"b":2}}`)}}, Settings: turn.ModelSettings{Temperature: &zero}}
		short, long := base, base
		short.Messages, long.Messages = all[:r.IntN(len(all))], all
		requests := sent(t, short, long, long)
		assert.True(t, bytes.HasPrefix(requests[1].Body, upToMessages(t, requests[0].Body)),
			"%s\nis no prefix of\n%s", upToMessages(t, requests[0].Body), requests[1].Body)
		assert.Equal(t, requests[1].Body, requests[2].Body, "equal prompts, equal bytes")
	}
}

func TestANoteComesLastAndChangesNothingBefore(t *testing.T) {
	p := prompt("hello")
	noted := p
	noted.Note = "Answer with JSON."
	requests := sent(t, p, noted)
	assert.True(t, bytes.HasPrefix(requests[1].Body, upToMessages(t, requests[0].Body)))
	last := requests[1].Chat.Messages[len(requests[1].Chat.Messages)-1]
	assert.Equal(t, "user", last.Role)
	assert.Contains(t, last.Content, "Answer with JSON.")
	assert.Equal(t, "hello", requests[1].Chat.Asked(), "a note is not taken for the user's word")
}

func TestMessagesAreRenderedAsProvidersWantThem(t *testing.T) {
	p := turn.Prompt{Model: "m", System: "sys", Messages: []turn.Message{
		{Role: turn.RoleUser, Text: "q"},
		{Role: turn.RoleAssistant, ToolCalls: []turn.ToolCall{
			{ID: "1.0", WireID: "w", Tool: "local/read_file", Arguments: `{"path":"a"}`},
			{ID: "1.1", Tool: "local/list_files", Arguments: ""},
			{ID: "1.2", Tool: "no such tool", Arguments: `{"half`},
		}},
		{Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK, Text: "content"},
		{Role: turn.RoleTool, CallID: "1.1", Outcome: turn.OutcomeOK},
		{Role: turn.RoleTool, CallID: "1.2", Outcome: turn.OutcomeError, Text: "there is no such tool"},
		{Role: turn.RoleTool, CallID: "9.9", Outcome: turn.OutcomeOK, Text: "an orphan"},
		{Role: turn.RoleAssistant},
	}}
	m := sent(t, p)[0].Chat.Messages
	require.Len(t, m, 8)
	assert.Equal(t, "sys", m[0].Content)
	assert.Equal(t, "system", m[0].Role)
	calls := m[2].ToolCalls
	assert.Equal(t, []string{"w", "call_1_1", "call_1_2"}, []string{calls[0].ID, calls[1].ID, calls[2].ID})
	assert.Equal(t, []string{"local_read_file", "local_list_files", turn.WireName("no such tool")},
		[]string{calls[0].Function.Name, calls[1].Function.Name, calls[2].Function.Name})
	assert.Equal(t, []string{`{"path":"a"}`, `{}`, `{"invalid_arguments":"{\"half"}`},
		[]string{calls[0].Function.Arguments, calls[1].Function.Arguments, calls[2].Function.Arguments})
	for i, want := range []string{"w", "call_1_1", "call_1_2"} {
		assert.Equal(t, "tool", m[3+i].Role)
		assert.Equal(t, want, m[3+i].ToolCallID)
		assert.NotEmpty(t, m[3+i].Content)
	}
	assert.Equal(t, "user", m[6].Role)
	assert.Contains(t, m[6].Content, "an orphan")
	assert.NotEmpty(t, m[7].Content)
}

func TestParametersAreSentAsAsked(t *testing.T) {
	zero, warm := 0.0, 0.7
	with := func(model string, temperature *float64, max int) turn.Prompt {
		p := prompt("hello")
		p.Model, p.Settings.Temperature, p.MaxTokens = model, temperature, max
		return p
	}
	r := sent(t, with("m", nil, 0), with("m", &zero, 100), with("m", &warm, 0), with("gpt-5-mini", nil, 100),
		with("o1-mini", nil, 0))
	assert.Nil(t, r[0].Chat.Temperature)
	assert.Zero(t, r[0].Chat.MaxTokens+r[0].Chat.MaxCompletionTokens)
	assert.True(t, r[0].Chat.Stream)
	assert.True(t, r[0].Chat.StreamOptions.IncludeUsage)
	assert.NotContains(t, string(r[0].Body), `"tools"`)
	require.NotNil(t, r[1].Chat.Temperature, "a temperature of 0 is not left out")
	assert.InDelta(t, 0, *r[1].Chat.Temperature, 1e-5)
	assert.Equal(t, 100, r[1].Chat.MaxTokens)
	assert.InDelta(t, 0.7, *r[2].Chat.Temperature, 1e-9)
	assert.Equal(t, 100, r[3].Chat.MaxCompletionTokens)
	assert.Zero(t, r[3].Chat.MaxTokens)
	assert.Equal(t, "user", r[4].Chat.Messages[0].Role, "o1-mini takes no system message")
}

// TestUnknownParametersAreLeftOut checks that a request is repeated without an optional parameter that the endpoint
// refuses, and that later requests omit it.
func TestUnknownParametersAreLeftOut(t *testing.T) {
	s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		switch {
		case r.Chat.StreamOptions != nil:
			return fakellm.Status(422, "x", "Extra inputs are not permitted: stream_options")
		case r.Chat.MaxTokens > 0:
			return fakellm.Status(400, "unsupported_parameter",
				"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
		}
		return fakellm.Text("ok")
	}))
	c, p := chatOf(t, s.URL()), prompt("hello")
	p.MaxTokens = 50
	for range 2 {
		done, err := c.Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
		assert.True(t, done.Usage.Estimated)
	}
	requests := s.Requests()
	require.Len(t, requests, 4, "two refusals are learned from once")
	assert.Equal(t, 50, requests[3].Chat.MaxCompletionTokens)
}

func TestAnEndpointThatRefusesEverythingIsNotAskedForEver(t *testing.T) {
	s := fakellm.Start(t, fakellm.Status(400, "x", "stream_options, max_tokens, max_completion_tokens: all wrong"))
	_, err := chatOf(t, s.URL()).Infer(t.Context(), prompt("hello"), newRecorder())
	refusal(t, err, turn.CodeLLMRejected)
	assert.Len(t, s.Requests(), 2)
}

func TestPing(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("x"))
	require.NoError(t, chatOf(t, s.URL()).Ping(t.Context()))
	assert.Empty(t, s.Requests(), "a ping costs nothing")

	err := chatOf(t, strings.TrimSuffix(s.URL(), "/v1")+"/v2").Ping(t.Context())
	assert.Contains(t, refusal(t, err, turn.CodeLLMRejected).Message, "base_url")

	denied := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 401, Header: http.Header{}, Body: http.NoBody}, nil
	})}
	err = chatOf(t, s.URL(), func(o *inference.Options) { o.HTTPClient = denied }).Ping(t.Context())
	assert.Contains(t, refusal(t, err, turn.CodeLLMUnauthorized).Message, "API key")
	require.NoError(t, s.Close())
	refusal(t, chatOf(t, s.URL()).Ping(t.Context()), turn.CodeLLMTransport)
}

// TestReasoningContentGoesBackEvenIfItIsEmpty covers DeepSeek, which refuses an assistant message with calls that has
// no reasoning_content: by its model's name, and by its refusal if an endpoint gives its model another name.
func TestReasoningContentGoesBackEvenIfItIsEmpty(t *testing.T) {
	refuses := fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if len(missingReasoning(t, r.Body)) > 0 {
			return fakellm.Status(400, "invalid_request_error",
				"The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
		return fakellm.Text("Done.")
	})
	call := func(step int, items *turn.ProviderItems) []turn.Message {
		id := turn.CallID(step, 0)
		return []turn.Message{{Role: turn.RoleAssistant, Items: items, ToolCalls: []turn.ToolCall{{ID: id, Tool: "local/x",
			Arguments: "{}"}}}, {Role: turn.RoleTool, CallID: id, Outcome: turn.OutcomeOK, Text: "ok"}}
	}
	for model, requests := range map[string]int{"deepseek-v4": 2, "deepseek/deepseek-chat": 2, "alias": 3} {
		s := fakellm.Start(t, refuses)
		p := prompt("hello")
		p.Model = model
		p.Messages = append(p.Messages, call(1, nil)...)
		p.Messages = append(p.Messages, call(2, &turn.ProviderItems{Provider: "scripted", API: turn.APIChat, Model: model,
			Items: []turn.ProviderItem{{Raw: json.RawMessage(`{"reasoning_content":"so"}`)}, {Part: turn.PartCall}}})...)
		p.Messages = append(p.Messages, turn.Message{Role: turn.RoleAssistant, Text: "Done."},
			turn.Message{Role: turn.RoleUser, Text: "And now?"})
		c := chatOf(t, s.URL())
		for range 2 {
			_, err := c.Infer(t.Context(), p, newRecorder())
			require.NoError(t, err, model)
		}
		require.Len(t, s.Requests(), requests, model)
		body := string(s.Requests()[requests-1].Body)
		assert.Equal(t, 1, strings.Count(body, `"reasoning_content":""`), model)
		assert.Equal(t, 1, strings.Count(body, `"reasoning_content":"so"`), model)
	}
}

// missingReasoning returns the messages with calls that have no reasoning_content.
func missingReasoning(t *testing.T, body []byte) (missing []json.RawMessage) {
	t.Helper()
	var request struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &request))
	for _, raw := range request.Messages {
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &m))
		if m["tool_calls"] != nil && m["reasoning_content"] == nil {
			missing = append(missing, raw)
		}
	}
	return missing
}
