package inference_test

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// contract is what a provider keeps to over a wire API, and its finish reasons of a call and of an answer.
type contract struct {
	wire           inference.Wire
	called, ended  string
	vendor         string // the first word of the environment variables
	address, model string // the defaults
}

var contracts = []contract{
	{chat.Wire{}, "tool_calls", "stop", "OPENAI", "https://api.openai.com/v1", "gpt-4.1-nano"},
	{responses.Wire{}, "tool_calls", "stop", "OPENAI", "https://api.openai.com/v1", "gpt-4.1-nano"},
	{messages.Wire{}, "tool_use", "end_turn", "ANTHROPIC", "https://api.anthropic.com/v1", "claude-haiku-5-5"},
}

// TestProvidersKeepTheContract asks the real providers whose keys are in the environment, for a few hundred tokens over
// each wire API: see docs/testing.md.
func TestProvidersKeepTheContract(t *testing.T) {
	for _, c := range contracts {
		t.Run(string(c.wire.API()), func(t *testing.T) {
			key := os.Getenv(c.vendor + "_API_KEY")
			if key == "" {
				t.Skipf("%s_API_KEY is not set, so the real provider is not asked", c.vendor)
			}
			address := cmp.Or(os.Getenv(c.vendor+"_BASE_URL"), c.address)
			if c.vendor == "ANTHROPIC" { // whose own clients add the version to the address
				address = strings.TrimSuffix(strings.TrimSuffix(address, "/"), "/v1") + "/v1"
			}
			c.check(t, address, key, cmp.Or(os.Getenv(c.vendor+"_MODEL"), c.model))
		})
	}
}

// TestTheFakeKeepsTheContract shows that the check of real providers works, and that the fake behaves as they do.
func TestTheFakeKeepsTheContract(t *testing.T) {
	for _, c := range contracts {
		t.Run(string(c.wire.API()), func(t *testing.T) {
			s := fakellm.Start(t, fakellm.Steps(fakellm.Call("weather", `{"city":"Paris"}`).Usage(60, 10, 0),
				fakellm.Text("In Paris there is marmalade rain and it is 17 degrees.").Usage(90, 15, 0)))
			c.check(t, s.URL(), canary, "m")
		})
	}
}

// check has the model call a tool, and answer with the tool's result.
func (c contract) check(t *testing.T, address, key, model string) {
	e := chatOf(t, address, speaking(c.wire), func(o *inference.Options) { o.APIKey = key })
	p := turn.Prompt{Model: model, MaxTokens: 1000, // enough for a model that thinks before
		System: "Call the tool weather for the weather. Answer in one short sentence that quotes its result in full.",
		Tools: []turn.WireTool{{Name: "weather", Description: "The weather of a city now.", Schema: json.RawMessage(
			`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`)}},
		Messages: []turn.Message{{Role: turn.RoleUser, Text: "What is the weather in Paris?"}}}

	done, err := e.Infer(t.Context(), p, newRecorder())
	require.NoError(t, err)
	require.Len(t, done.ToolCalls, 1)
	call := done.ToolCalls[0]
	assert.Equal(t, "weather", call.Tool)
	assert.NotEmpty(t, call.WireID)
	var arguments struct{ City string }
	require.NoError(t, json.Unmarshal([]byte(call.Arguments), &arguments))
	assert.Contains(t, arguments.City, "Paris")
	assert.Equal(t, c.called, done.FinishReason)
	assertCounted(t, done.Usage)

	call.ID = turn.CallID(1, 0)
	p.Messages = append(p.Messages,
		turn.Message{Role: turn.RoleAssistant, Text: done.Text, ToolCalls: []turn.ToolCall{call}, Items: done.Items},
		turn.Message{Role: turn.RoleTool, CallID: call.ID, Outcome: turn.OutcomeOK, Text: "marmalade rain, 17 degrees"})
	sink := newRecorder()
	done, err = e.Infer(t.Context(), p, sink)
	require.NoError(t, err)
	assert.Contains(t, strings.ToLower(done.Text), "marmalade", "the model has the result")
	assert.Equal(t, done.Text, sink.all())
	assert.Greater(t, len(sink.text), 1, "the text is streamed")
	assert.Empty(t, done.ToolCalls)
	assert.Equal(t, c.ended, done.FinishReason)
	assertCounted(t, done.Usage)
}

// assertCounted asserts that the provider has reported the tokens of a completion.
func assertCounted(t *testing.T, u turn.Usage) {
	t.Helper()
	assert.Positive(t, u.InputTokens)
	assert.Positive(t, u.OutputTokens)
	assert.False(t, u.Estimated)
}
