package inference_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// wires are the wire APIs, which all pass the tests of this file.
var wires = []inference.Wire{chat.Wire{}, responses.Wire{}, messages.Wire{}}

// conform runs a test against each wire API.
func conform(t *testing.T, test func(t *testing.T, w inference.Wire)) {
	for _, w := range wires {
		t.Run(string(w.API()), func(t *testing.T) { test(t, w) })
	}
}

func speaking(w inference.Wire) func(*inference.Options) {
	return func(o *inference.Options) { o.Wire = func(turn.Prompt) inference.Wire { return w } }
}

// parallel is a whole completion: reasoning, text, and two calls whose parts arrive in turns.
var parallel = fakellm.Calls(
	fakellm.ToolCall{ID: "call_a", Name: "local_read_file", Arguments: `{"path":"ä.txt"}`},
	fakellm.ToolCall{ID: "call_b", Name: "local_list_files", Arguments: `{"path":"<b>"}`},
).WithText("I look. It takes a moment.").Reasoning("Two files, so two calls.").
	Counts(fakellm.Usage{Prompt: 1000, Completion: 50, Cached: 600, CacheWrite: 300, Reasoning: 20})

func TestACompletionIsTheSameOverEveryAPI(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		for name, reply := range map[string]fakellm.Reply{"stream": parallel, "plain": parallel.Plain()} {
			c, sink, err := infer(t, reply, speaking(w))
			require.NoError(t, err, name)
			assert.Equal(t, "I look. It takes a moment.", c.Text, name)
			assert.Equal(t, c.Text, sink.all(), name)
			assert.Equal(t, "m", c.Model, name)
			assert.Empty(t, c.Stop(), name)
			assert.Equal(t, []turn.ToolCall{{WireID: "call_a", Tool: "local_read_file", Arguments: `{"path":"ä.txt"}`},
				{WireID: "call_b", Tool: "local_list_files", Arguments: `{"path":"<b>"}`}}, unescape(c.ToolCalls), name)
			u := turn.Usage{InputTokens: 1000, OutputTokens: 50, CachedTokens: 600, CacheWriteTokens: 300, ReasoningTokens: 20}
			if name == "plain" && w.API() == turn.APIMessages {
				u.ReasoningTokens = 0 // the fake has no such count there
			}
			assert.Equal(t, u, c.Usage, name)
			if name == "stream" {
				assert.Equal(t, "Two files, so two calls.", c.Reasoning)
				assert.Equal(t, c.Reasoning, strings.Join(sink.reasoning, ""))
			}
		}
	})
}

// unescape undoes the escapes of package json in arguments, which the fake adds.
func unescape(calls []turn.ToolCall) []turn.ToolCall {
	for i := range calls {
		calls[i].Arguments = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(calls[i].Arguments)
	}
	return calls
}

// TestAStreamMayBeCutAnywhere cuts a stream before each of its events: without its finish reason it is no completion,
// and with it it is whole.
func TestAStreamMayBeCutAnywhere(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		s := fakellm.Start(t, parallel)
		c := chatOf(t, s.URL(), speaking(w))
		whole, err := c.Infer(t.Context(), prompt("hello"), newRecorder())
		require.NoError(t, err)
		events := s.Requests()[0].Events
		for cut := range events {
			for name, reply := range map[string]fakellm.Reply{"cut": parallel.CutAfter(cut), "reset": parallel.ResetAfter(cut)} {
				s.SetScript(reply)
				done, err := c.Infer(t.Context(), prompt("hello"), newRecorder())
				requests := s.Requests()
				if requests[len(requests)-1].Finished && (err == nil || name == "cut") { // a reset may take the last event along
					require.NoError(t, err, "%s after %d", name, cut)
					assert.Equal(t, whole.ToolCalls, done.ToolCalls)
					assert.Equal(t, whole.Items, done.Items)
				} else if name == "cut" {
					require.Equal(t, turn.CodeLLMTruncated, turn.CodeOf(err), "after %d: %v", cut, err)
				} else { // what the client has read of it decides which code it is
					require.True(t, turn.CodeOf(err).Retryable(), "after %d: %v", cut, err)
				}
			}
		}
	})
}

func TestErrorsInStreams(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		for kind, want := range map[string]turn.Code{
			"server_error": turn.CodeLLMTransport, "overloaded_error": turn.CodeLLMTransport,
			"rate_limit_exceeded": turn.CodeLLMRateLimited, "insufficient_quota": turn.CodeLLMRejected,
			"context_length_exceeded": turn.CodeContextOverflow,
		} {
			for _, after := range []int{0, 5} {
				_, _, err := infer(t, parallel.FailAfter(after, kind, "it went wrong"), speaking(w))
				e := refusal(t, err, want)
				assert.Contains(t, e.Message, "it went wrong")
			}
		}
	})
}

func TestOverflowsHaveOneCode(t *testing.T) {
	output := []string{
		"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
		"prompt is too long: 213462 tokens > 200000 maximum",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
		"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
		"the request exceeds the available context size. try increasing the context size",
	}
	conform(t, func(t *testing.T, w inference.Wire) {
		for _, message := range output {
			_, _, err := infer(t, fakellm.Status(400, "invalid_request_error", message), speaking(w))
			refusal(t, err, turn.CodeContextOverflow)
		}
		_, _, err := infer(t, fakellm.StatusBody(413, "application/json",
			`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`), speaking(w))
		refusal(t, err, turn.CodeContextOverflow)
		_, _, err = infer(t, fakellm.Status(429, "rate_limit_error", "Too many tokens, please wait before trying again."),
			speaking(w))
		refusal(t, err, turn.CodeLLMRateLimited)
	})
}

func TestCompletionsThatEndEarly(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		for finish, want := range map[string]turn.StopCause{"length": turn.StopLength, "refusal": turn.StopRefusal} {
			c, _, err := infer(t, fakellm.Text("I will not, or ").Finish(finish), speaking(w))
			require.NoError(t, err)
			assert.Equal(t, want, c.Stop())
			assert.Equal(t, "I will not, or ", c.Text)
		}
		c, _, err := infer(t, fakellm.Text("Half").Finish("content_filter"), speaking(w))
		require.NoError(t, err)
		assert.NotEmpty(t, c.Stop())
		c, _, err = infer(t, parallel.Finish("length"), speaking(w))
		require.NoError(t, err, "calls that are cut off are kept, and do not run")
		assert.Equal(t, turn.StopLength, c.Stop())
	})
}

// TestAnIncompleteResponseIsNotWhole checks a response that is incomplete for a reason that is not known here.
func TestAnIncompleteResponseIsNotWhole(t *testing.T) {
	c, _, err := infer(t, parallel.Finish("max_tool_calls"), speaking(responses.Wire{}))
	require.NoError(t, err)
	assert.Equal(t, turn.StopLength, c.Stop())
}

// conversation is a session in which the model has answered once, by parallel, and once by text.
func converse(t *testing.T, w inference.Wire, model string, script fakellm.Script) (*fakellm.Server, turn.Prompt) {
	t.Helper()
	s := fakellm.Start(t, parallel)
	c := chatOf(t, s.URL(), speaking(w))
	p := prompt("look")
	p.Model = model
	done, err := c.Infer(t.Context(), p, newRecorder())
	require.NoError(t, err)
	m := turn.Message{Role: turn.RoleAssistant, Text: done.Text, Items: done.Items}
	results := []turn.Message{}
	for i, call := range done.ToolCalls {
		call.ID, call.Tool = turn.CallID(1, i), strings.Replace(call.Tool, "_", "/", 1)
		m.ToolCalls = append(m.ToolCalls, call)
		results = append(results, turn.Message{Role: turn.RoleTool, CallID: call.ID, Outcome: turn.OutcomeOK, Text: "ok"})
	}
	p.Messages = append(append(p.Messages, m), results...)
	s.SetScript(script)
	return s, p
}

// TestReasoningGoesBackUnchanged checks it through the fake, which refuses reasoning that was changed or reordered.
func TestReasoningGoesBackUnchanged(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		s, p := converse(t, w, "m", fakellm.Text("Done.").Reasoning("All is read."))
		for range 2 { // what the journal keeps is JSON
			b, err := json.Marshal(p.Messages[1].Items)
			require.NoError(t, err)
			p.Messages[1].Items = nil
			require.NoError(t, json.Unmarshal(b, &p.Messages[1].Items))
			_, err = chatOf(t, s.URL(), speaking(w)).Infer(t.Context(), p, newRecorder())
			require.NoError(t, err)
		}
		requests := s.Requests()
		got := requests[len(requests)-1].Chat.Last("assistant")
		assert.Equal(t, []string{"Two files, so two calls."}, got.Reasoning)
		assert.Equal(t, requests[1].Body, requests[2].Body)
		ids := []string{got.ToolCalls[0].ID, got.ToolCalls[1].ID}
		assert.Equal(t, []string{"call_a", "call_b"}, ids)
	})
}

// TestACutAnswerHasTheReportedUsage covers the Messages API, which reports the input at the beginning of the answer.
func TestACutAnswerHasTheReportedUsage(t *testing.T) {
	reply := fakellm.Text("one two three four").Counts(fakellm.Usage{Prompt: 900, Completion: 50, Cached: 300}).CutAfter(6)
	c, _, err := infer(t, reply, speaking(messages.Wire{}))
	refusal(t, err, turn.CodeLLMTruncated)
	assert.Equal(t, turn.Completion{Usage: turn.Usage{InputTokens: 900, OutputTokens: 4, CachedTokens: 300,
		Estimated: true}}, c)
}

// TestASwitchOfTheModelDropsItsReasoning hands conversations over between all APIs, models and providers.
func TestASwitchOfTheModelDropsItsReasoning(t *testing.T) {
	conform(t, func(t *testing.T, from inference.Wire) {
		for _, to := range wires {
			for _, model := range []string{"m", "other"} {
				s, p := converse(t, from, "m", fakellm.Text("Done."))
				p.Model = model
				change := []func(*inference.Options){speaking(to)}
				if model == "m" && from == to {
					change = append(change, func(o *inference.Options) { o.Name = "elsewhere" })
				}
				_, err := chatOf(t, s.URL(), change...).Infer(t.Context(), p, newRecorder())
				require.NoError(t, err, "to %s", to.API())
				got := s.Requests()[1].Chat
				assert.Empty(t, got.Last("assistant").Reasoning)
				require.Len(t, got.Last("assistant").ToolCalls, 2)
				assert.Equal(t, "I look. It takes a moment.", got.Last("assistant").Content)
				assert.Equal(t, "call_b", got.Last("tool").ToolCallID)
			}
		}
	})
}

// TestHardTranscripts sends transcripts that vendors refuse unless they are adapted: foreign and repeated IDs, empty
// texts, results without a call, a beginning that is cut off, arguments that are no JSON.
func TestHardTranscripts(t *testing.T) {
	call := func(step int, wire string) []turn.Message {
		id := turn.CallID(step, 0)
		return []turn.Message{
			{Role: turn.RoleAssistant, ToolCalls: []turn.ToolCall{{ID: id, WireID: wire, Tool: "local/x", Arguments: `{"half`}}},
			{Role: turn.RoleTool, CallID: id, Outcome: turn.OutcomeError},
		}
	}
	p := prompt("")
	p.Messages = append([]turn.Message{{Role: turn.RoleAssistant}}, call(1, "functions.x:0")...)
	p.Messages = append(p.Messages, call(2, "functions.x:0")...)
	p.Messages = append(p.Messages, turn.Message{Role: turn.RoleUser}, turn.Message{Role: turn.RoleTool, CallID: "9.9"})
	p.Messages = append(p.Messages, call(1, "")...)
	p.Messages = append(p.Messages, call(1, strings.Repeat("x", 64))...)
	p.Messages = append(p.Messages, call(2, strings.Repeat("x", 64))...)
	p.Note = "Go on."
	conform(t, func(t *testing.T, w inference.Wire) {
		_, err := chatOf(t, fakellm.Start(t, fakellm.Text("ok")).URL(), speaking(w)).Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
	})
}

func TestEveryAPIExtendsTheBytes(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		s, p := converse(t, w, "gpt-4o", fakellm.Text("Done."))
		p.Tools = []turn.WireTool{{Name: "a", Schema: json.RawMessage(`{"type":"object","z":1,"a":2}`)}}
		p.Messages[2].Media = []turn.Media{picture}
		c := chatOf(t, s.URL(), speaking(w))
		for _, n := range []int{1, len(p.Messages)} {
			short := p
			short.Messages = p.Messages[:n]
			_, err := c.Infer(t.Context(), short, newRecorder())
			require.NoError(t, err)
		}
		r := s.Requests()
		key := map[turn.API]string{turn.APIResponses: "input"}[w.API()]
		if key == "" {
			key = "messages"
		}
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(r[1].Body, &fields))
		end := bytes.Index(r[1].Body, fields[key]) + len(fields[key]) - 1
		assert.True(t, bytes.HasPrefix(r[2].Body, r[1].Body[:end]), "%s\n%s", r[1].Body, r[2].Body)
		assert.Contains(t, string(r[2].Body), base(picture.Data))
		assert.Equal(t, []string{"a"}, r[2].Chat.ToolNames())
	})
}

func TestEveryAPITakesASchema(t *testing.T) {
	conform(t, func(t *testing.T, w inference.Wire) {
		s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
			if r.Index > 0 && r.Chat.Schema != nil {
				return fakellm.Status(400, "invalid_request_error",
					"json_schema is not supported by this model (response_format, output_config)")
			}
			return fakellm.Text(`{"n":1}`)
		}))
		c := chatOf(t, s.URL(), speaking(w))
		p := prompt("count")
		p.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],` +
			`"additionalProperties":false}`)
		for range 3 {
			_, err := c.Infer(t.Context(), p, newRecorder())
			require.NoError(t, err)
		}
		r := s.Requests()
		require.Len(t, r, 4, "an endpoint that refuses schemas gets none, from then on")
		assert.Contains(t, string(r[0].Body), `"additionalProperties":false`)
		assert.Nil(t, r[3].Chat.Schema)
	})
}

func TestJSONActionsHaveASchemaIfTheModelKeepsToOne(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text(`{"type":"final","content":"Hello."}`))
	c := chatOf(t, s.URL(), func(o *inference.Options) {
		o.Capabilities = func(model string) []models.Capability {
			return map[string][]models.Capability{"keeps": {models.JSONMode}}[model]
		}
	})
	for _, model := range []string{"keeps", "unknown"} {
		p := turn.Render(turn.PromptSpec{Model: model, Mode: turn.ModeJSON}, turn.PromptConfig{}, nil,
			[]turn.Message{{Role: turn.RoleUser, Text: "Hello."}})
		_, err := c.Infer(t.Context(), p, newRecorder())
		require.NoError(t, err)
	}
	r := s.Requests()
	assert.Contains(t, string(r[0].Chat.Schema), `"tool_call"`)
	assert.Nil(t, r[1].Chat.Schema)
}

func TestTheMessagesAPIHasItsOwnHeadersAndBounds(t *testing.T) {
	s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if r.Chat.MaxTokens > 8192 {
			return fakellm.Status(400, "invalid_request_error", fmt.Sprintf("max_tokens: %d > 8192, which is the maximum "+
				"allowed number of output tokens for m", r.Chat.MaxTokens))
		}
		return fakellm.Text("ok")
	}))
	c := chatOf(t, s.URL(), speaking(messages.Wire{}))
	for range 2 {
		_, err := c.Infer(t.Context(), prompt("hello"), newRecorder())
		require.NoError(t, err)
	}
	require.NoError(t, c.Ping(t.Context()))
	r := s.Requests()
	require.Len(t, r, 3)
	assert.Equal(t, 8192, r[2].Chat.MaxTokens)
	assert.Equal(t, canary, r[2].Header.Get("X-Api-Key"))
	assert.NotEmpty(t, r[2].Header.Get("Anthropic-Version"))
	assert.Empty(t, r[2].Header.Get("Authorization"))
	assert.Contains(t, string(r[2].Body), `"cache_control":{"type":"ephemeral"}`)
}

func TestTheResponsesAPIIsAskedToKeepNothing(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("ok"))
	p := prompt("hello")
	p.MaxTokens, p.CacheKey = 5, "k"
	_, err := chatOf(t, s.URL(), speaking(responses.Wire{})).Infer(t.Context(), p, newRecorder())
	require.NoError(t, err)
	r := s.Requests()[0]
	assert.Equal(t, 16, r.Chat.MaxTokens)
	assert.Equal(t, "k", r.Chat.CacheKey)
	assert.Contains(t, string(r.Body), `"store":false`)
	assert.Contains(t, string(r.Body), `"include":["reasoning.encrypted_content"]`)
}
