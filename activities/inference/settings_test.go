package inference_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// byAPI are the implementations of the wire APIs.
var byAPI = map[turn.API]inference.Wire{
	turn.APIChat: chat.Wire{}, turn.APIResponses: responses.Wire{}, turn.APIMessages: messages.Wire{},
}

// fieldsOf renders a prompt and returns the fields of the body that are not the conversation, as JSON.
func fieldsOf(t *testing.T, api turn.API, p turn.Prompt) (string, http.Header) {
	t.Helper()
	body, err := byAPI[api].Body(p, inference.Rules{})
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body.JSON, &fields))
	for _, name := range []string{"model", "messages", "input", "instructions", "system", "tools", "stream",
		"stream_options", "store", "cache_control"} {
		delete(fields, name)
	}
	b, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(b), body.Header
}

// listed returns how the built-in list describes a model.
func listed(t *testing.T, vendor, name string) turn.Reasoning {
	t.Helper()
	p, ok := models.BuiltIn().Find(vendor, name)
	require.True(t, ok, name)
	return p.Reasoning
}

// TestEachAPITakesTheEffort checks how each wire API and each kind of provider writes the effort.
func TestEachAPITakesTheEffort(t *testing.T) {
	const include = `"include":["reasoning.encrypted_content"]`
	for _, c := range []struct {
		api       turn.API
		reasoning turn.Reasoning
		settings  turn.ModelSettings
		want      string
		beta      string
	}{
		{turn.APIChat, turn.Reasoning{}, turn.ModelSettings{}, `{}`, ""},
		{turn.APIChat, turn.Reasoning{}, turn.ModelSettings{Effort: "off"}, `{"reasoning_effort":"none"}`, ""},
		{turn.APIChat, turn.Reasoning{}, turn.ModelSettings{Effort: "xhigh"}, `{"reasoning_effort":"xhigh"}`, ""},
		{turn.APIChat, listed(t, "groq", "qwen/qwen3.6-27b"), turn.ModelSettings{Effort: "high"},
			`{"reasoning_effort":"default"}`, ""},
		{turn.APIChat, listed(t, "deepseek", "deepseek-flash"), turn.ModelSettings{Effort: "max"},
			`{"reasoning_effort":"max","thinking":{"type":"enabled"}}`, ""},
		{turn.APIChat, listed(t, "deepseek", "deepseek-flash"), turn.ModelSettings{Effort: "off"},
			`{"thinking":{"type":"disabled"}}`, ""},
		{turn.APIChat, listed(t, "zai", "glm-5.2"), turn.ModelSettings{Effort: "high"},
			`{"reasoning_effort":"high","thinking":{"clear_thinking":false,"type":"enabled"}}`, ""},
		{turn.APIChat, turn.Reasoning{Format: turn.ThinkingOpenRouter}, turn.ModelSettings{Effort: "low"},
			`{"reasoning":{"effort":"low"}}`, ""},
		{turn.APIChat, turn.Reasoning{Format: turn.ThinkingTogether}, turn.ModelSettings{Effort: "off"},
			`{"reasoning":{"enabled":false}}`, ""},
		{turn.APIChat, turn.Reasoning{Format: turn.ThinkingQwen}, turn.ModelSettings{Effort: "off"},
			`{"enable_thinking":false}`, ""},
		{turn.APIChat, turn.Reasoning{Format: turn.ThinkingChatTemplate}, turn.ModelSettings{Effort: "low"},
			`{"chat_template_kwargs":{"enable_thinking":true}}`, ""},
		{turn.APIResponses, turn.Reasoning{}, turn.ModelSettings{}, `{` + include + `}`, ""},
		{turn.APIResponses, listed(t, "openai", "gpt-4.1"), turn.ModelSettings{}, `{}`, ""},
		{turn.APIResponses, listed(t, "openai", "gpt-5.2"), turn.ModelSettings{Effort: "off", ReasoningSummary: "auto"},
			`{` + include + `,"reasoning":{"effort":"none"}}`, ""},
		{turn.APIResponses, listed(t, "openai", "gpt-5.2"), turn.ModelSettings{Effort: "high", ReasoningSummary: "auto"},
			`{` + include + `,"reasoning":{"effort":"high","summary":"auto"}}`, ""},
		{turn.APIMessages, listed(t, "anthropic", "claude-opus-4-8"), turn.ModelSettings{}, `{"max_tokens":32000}`, ""},
		{turn.APIMessages, listed(t, "anthropic", "claude-opus-4-8"), turn.ModelSettings{Effort: "xhigh"},
			`{"max_tokens":32000,"output_config":{"effort":"xhigh"},"thinking":{"display":"summarized","type":"adaptive"}}`, ""},
		{turn.APIMessages, listed(t, "anthropic", "claude-opus-4-8"), turn.ModelSettings{Effort: "off"},
			`{"max_tokens":32000,"thinking":{"type":"disabled"}}`, ""},
		{turn.APIMessages, listed(t, "anthropic", "claude-sonnet-5-5"), turn.ModelSettings{},
			`{"max_tokens":32000,"thinking":{"block_binding":{"prefix_mismatch_behavior":"drop_block"},"type":"adaptive"}}`,
			"thinking-binding-controls-2026-08-01"},
		{turn.APIMessages, listed(t, "anthropic", "claude-sonnet-5-5"), turn.ModelSettings{Effort: "off"},
			`{"max_tokens":32000,"thinking":{"type":"between_tools"}}`, ""},
		{turn.APIMessages, listed(t, "anthropic", "claude-fable-5-2"),
			turn.ModelSettings{Effort: "low", ReasoningSummary: turn.SummaryOff},
			`{"max_tokens":32000,"output_config":{"effort":"low"},"thinking":{"block_binding":` +
				`{"prefix_mismatch_behavior":"drop_block"},"display":"omitted","type":"adaptive"}}`,
			"thinking-binding-controls-2026-08-01"},
		{turn.APIMessages, listed(t, "anthropic", "claude-haiku-4-5"), turn.ModelSettings{Effort: "medium"},
			`{"max_tokens":32000,"thinking":{"budget_tokens":8192,"display":"summarized","type":"enabled"}}`,
			"interleaved-thinking-2025-05-14"},
		{turn.APIMessages, turn.Reasoning{}, turn.ModelSettings{Effort: "off"},
			`{"max_tokens":32000,"thinking":{"type":"disabled"}}`, ""},
	} {
		p := prompt("hello")
		p.Settings, p.Reasoning, p.Tools = c.settings, c.reasoning, []turn.WireTool{{Name: "look"}}
		got, header := fieldsOf(t, c.api, p)
		assert.JSONEq(t, c.want, got, "%s %+v", c.api, c.settings)
		assert.Equal(t, c.beta, header.Get("Anthropic-Beta"), "%+v", c.settings)
	}
}

// TestEachAPITakesTheOtherSettings checks how each wire API writes the settings other than the effort.
func TestEachAPITakesTheOtherSettings(t *testing.T) {
	half, seed, no := 0.5, 7, false
	s := turn.ModelSettings{Verbosity: "low", ServiceTier: "flex", TopP: &half, Stop: []string{"END"}, Seed: &seed,
		ParallelToolCalls: &no, ToolChoice: "local/look", Temperature: &half}
	p := prompt("hello")
	p.Settings, p.Tools = s, []turn.WireTool{{Name: "local_look"}}
	got, _ := fieldsOf(t, turn.APIChat, p)
	assert.JSONEq(t, `{"temperature":0.5,"top_p":0.5,"stop":["END"],"seed":7,"verbosity":"low","service_tier":"flex",
		"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"local_look"}}}`, got)
	got, _ = fieldsOf(t, turn.APIResponses, p)
	assert.JSONEq(t, `{"temperature":0.5,"top_p":0.5,"text":{"verbosity":"low"},"service_tier":"flex",
		"include":["reasoning.encrypted_content"],"parallel_tool_calls":false,
		"tool_choice":{"type":"function","name":"local_look"}}`, got)
	got, _ = fieldsOf(t, turn.APIMessages, p)
	assert.JSONEq(t, `{"max_tokens":32000,"temperature":0.5,"top_p":0.5,"stop_sequences":["END"],"service_tier":"flex",
		"tool_choice":{"type":"tool","name":"local_look","disable_parallel_tool_use":true}}`, got)
	for choice, want := range map[string][3]string{ // of Chat, Responses and Messages
		turn.ChoiceNone:     {`"none"`, `"none"`, `{"type":"none"}`},
		turn.ChoiceRequired: {`"required"`, `"required"`, `{"type":"any"}`},
	} {
		p.Settings = turn.ModelSettings{ToolChoice: choice}
		for i, api := range []turn.API{turn.APIChat, turn.APIResponses, turn.APIMessages} {
			got, _ = fieldsOf(t, api, p)
			assert.Contains(t, got, `"tool_choice":`+want[i], api)
		}
	}
	p.Tools = nil // providers refuse a choice among no tools
	for api := range byAPI {
		got, _ = fieldsOf(t, api, p)
		assert.NotContains(t, got, "tool_choice", api)
	}
}

// TestABudgetOfThinkingFitsTheLimit checks that a budget leaves room for the answer, and that there is none if the
// model's last calls came without thinking, because the API refuses that.
func TestABudgetOfThinkingFitsTheLimit(t *testing.T) {
	p := prompt("hello")
	p.Reasoning, p.Settings.Effort, p.MaxTokens = listed(t, "anthropic", "claude-haiku-4-5"), turn.EffortHigh, 4000
	got, _ := fieldsOf(t, turn.APIMessages, p)
	assert.Contains(t, got, `"budget_tokens":2976`)
	p.MaxTokens = 2000
	got, _ = fieldsOf(t, turn.APIMessages, p)
	assert.NotContains(t, got, "thinking")
	p.MaxTokens = 0
	p.Messages = append(p.Messages, turn.Message{Role: turn.RoleAssistant,
		ToolCalls: []turn.ToolCall{{ID: "1.0", Tool: "look", Arguments: "{}"}}},
		turn.Message{Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK, Text: "Seen."})
	got, _ = fieldsOf(t, turn.APIMessages, p)
	assert.NotContains(t, got, "thinking")
}

// TestToolsOfReasoningModelsNeedResponses checks that a request that Chat Completions would refuse is not sent.
func TestToolsOfReasoningModelsNeedResponses(t *testing.T) {
	for model, effort := range map[string]turn.Effort{"gpt-5.6-sol": "", "gpt-5.6-luna": "low", "gpt-6-astra": "",
		"gpt-6-sol": "high"} {
		p := prompt("hello")
		p.Model, p.Settings.Effort, p.Tools = model, effort, []turn.WireTool{{Name: "look"}}
		_, err := chat.Wire{}.Body(p, inference.Rules{})
		refusal(t, err, turn.CodeLLMRejected)
		assert.ErrorContains(t, err, `api = "responses"`, model)
	}
	warm := 0.5
	for _, model := range []string{"gpt-5.6-sol", "gpt-6-sol"} {
		p := prompt("hello")
		p.Model, p.Settings, p.Tools = model, turn.ModelSettings{Effort: "off", Temperature: &warm},
			[]turn.WireTool{{Name: "look"}}
		_, err := chat.Wire{}.Body(p, inference.Rules{})
		assert.NoError(t, err, model)
	}
}

// TestARefusedSettingIsLeftOut checks that a setting that the provider refuses by name is left out, that the result
// says so, and that the same value is not tried again, but another one is.
func TestARefusedSettingIsLeftOut(t *testing.T) {
	refuses := func(word, message string) fakellm.Script {
		return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
			if strings.Contains(string(r.Body), word) {
				return fakellm.Status(http.StatusBadRequest, "invalid_request_error", message)
			}
			return fakellm.Text("ok")
		})
	}
	hot, warm := 2.0, 0.5
	for message, c := range map[string]struct {
		word     string
		settings turn.ModelSettings
		omitted  string
	}{
		"Unsupported parameter: 'reasoning_effort' is not supported with this model.": {`"reasoning_effort"`,
			turn.ModelSettings{Effort: "high"}, "effort"},
		"temperature: range: 0..1": {`"temperature":2`, turn.ModelSettings{Temperature: &hot}, "temperature"},
		"Unknown name \"seed\"":    {`"seed"`, turn.ModelSettings{Seed: new(int)}, "seed"},
		"`stop` is not supported":  {`"stop"`, turn.ModelSettings{Stop: []string{"x"}}, "stop"},
	} {
		s := fakellm.Start(t, refuses(c.word, message))
		e := chatOf(t, s.URL())
		for range 2 {
			p := prompt("hello")
			p.Settings = c.settings
			completion, err := e.Infer(t.Context(), p, newRecorder())
			require.NoError(t, err, message)
			assert.Equal(t, []string{c.omitted}, completion.Omitted)
		}
		assert.Len(t, s.Requests(), 3, "the second inference does not try it again")
		p := prompt("hello")
		p.Settings.Temperature = &warm
		completion, err := e.Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
		assert.Empty(t, completion.Omitted, "another value may be accepted")
	}
	s := fakellm.Start(t, refuses("", "the prompt is not to my taste"))
	p := prompt("hello")
	p.Settings = turn.ModelSettings{Effort: "high", Temperature: &warm}
	_, err := chatOf(t, s.URL()).Infer(t.Context(), p, newRecorder())
	refusal(t, err, turn.CodeLLMRejected)
	assert.Len(t, s.Requests(), 1, "the refusal names none of them")
}

// TestReasoningThatTheProviderRefusesIsDropped checks that an inference goes on without the reasoning of earlier
// answers if the provider cannot read it any more.
func TestReasoningThatTheProviderRefusesIsDropped(t *testing.T) {
	s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if strings.Contains(string(r.Body), "stale") {
			return fakellm.Status(http.StatusBadRequest, "invalid_encrypted_content",
				"The encrypted content could not be verified.")
		}
		return fakellm.Text("ok")
	}))
	p := prompt("hello")
	items := &turn.ProviderItems{Provider: "scripted", API: turn.APIChat, Model: "m",
		Items: []turn.ProviderItem{{Raw: json.RawMessage(`{"reasoning_content":"stale"}`)}, {Part: turn.PartCall}}}
	p.Messages = append(p.Messages, turn.Message{Role: turn.RoleAssistant, Items: items,
		ToolCalls: []turn.ToolCall{{ID: "1.0", WireID: "w", Tool: "look", Arguments: "{}"}}},
		turn.Message{Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK, Text: "Seen."})
	_, err := chatOf(t, s.URL()).Infer(t.Context(), p, newRecorder())
	require.NoError(t, err)
	require.Len(t, s.Requests(), 2)
	assert.Contains(t, string(s.Requests()[0].Body), "stale")
	assert.NotContains(t, string(s.Requests()[1].Body), "stale")
}

// TestExtraFieldsAreAdded checks the fields of the header and of the body that a provider is configured with.
func TestExtraFieldsAreAdded(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("ok"))
	e := chatOf(t, s.URL(), func(o *inference.Options) {
		o.Header = http.Header{"X-Title": {"tests"}}
		o.ExtraBody = json.RawMessage(`{"top_k":40,"temperature":0.25}`)
	})
	warm := 0.5
	for _, p := range []turn.Prompt{prompt("hello"), {Model: "m", Messages: prompt("hello").Messages,
		Settings: turn.ModelSettings{Temperature: &warm}}} {
		_, err := e.Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
	}
	for _, r := range s.Requests() {
		assert.Contains(t, string(r.Body), `"top_k":40`)
		assert.Equal(t, 0.25, *r.Chat.Temperature)
		assert.Equal(t, "tests", r.Header.Get("X-Title"))
	}
	assert.True(t, strings.HasPrefix(string(s.Requests()[0].Body), `{"model":"m","messages":`))
}

// TestOpenRoutersReasoningIsSentBackWhole checks that the pieces of reasoning_details are joined as OpenRouter wants
// them back.
func TestOpenRoutersReasoningIsSentBackWhole(t *testing.T) {
	event := func(details string) string {
		return `data: {"choices":[{"index":0,"delta":{"reasoning_details":[` + details + `]}}]}` + "\n\n"
	}
	c, _, err := infer(t, fakellm.Raw(
		event(`{"type":"reasoning.text","text":"I ","index":0,"format":"anthropic-claude-v1"}`),
		event(`{"type":"reasoning.text","text":"look.","index":0}`),
		event(`{"type":"reasoning.text","signature":"sig","index":0}`),
		event(`{"type":"reasoning.encrypted","data":"xyz","id":"r1"}`),
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{}"}}]}}]}`+"\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n", "data: [DONE]\n\n"))
	require.NoError(t, err)
	require.NotNil(t, c.Items)
	var own struct {
		Details json.RawMessage `json:"reasoning_details"`
	}
	require.NoError(t, json.Unmarshal(c.Items.Items[0].Raw, &own))
	assert.JSONEq(t, `[{"type":"reasoning.text","text":"I look.","index":0,"format":"anthropic-claude-v1","signature":"sig"},
		{"type":"reasoning.encrypted","data":"xyz","id":"r1"}]`, string(own.Details))
}
