package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// provider makes the model of the fake one of a provider "mine" that speaks this API.
func provider(api turn.API, model string) func(*config.Config) {
	return func(c *config.Config) {
		c.LLM.Provider, c.LLM.Model = config.ProviderAuto, "mine:"+model
		c.Providers = []config.ModelProvider{{ID: "mine", API: api, BaseURL: c.LLM.BaseURL}}
		c.LLM.BaseURL = ""
	}
}

// TestReasoningComesBackOverThreeHops runs a turn of eight calls, each after reasoning, over each wire API. Its prompt
// is compacted in the middle. Two more turns of the session have other efforts and other tools. The fake refuses
// requests whose reasoning is missing or was changed, and of the bound model also reasoning after other messages, or
// with other tools, than those that it came after.
func TestReasoningComesBackOverThreeHops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		api    turn.API
		effort string // as the request writes it
	}{
		"thinker":           {turn.APIChat, `"reasoning_effort":"high"`},
		"deepseek-flash":    {turn.APIChat, `"reasoning_effort":"high"`},
		"gpt-5.2":           {turn.APIResponses, `"reasoning":{"effort":"high","summary":"auto"}`},
		"claude-opus-4-8":   {turn.APIMessages, `"output_config":{"effort":"high"}`},
		"claude-haiku-4-5":  {turn.APIMessages, `"budget_tokens":`},
		"claude-sonnet-5-5": {turn.APIMessages, `"prefix_mismatch_behavior":"drop_block"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const calls = 8
			m := &reader{summary: fakellm.Text("They read a book."), script: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
				n := calls
				if strings.Contains(string(r.Body), "Read on:") {
					n = 3
				}
				reply := hops("local_quick_page", n).Reply(r)
				if name == "deepseek-flash" && r.Step == 1 {
					return reply // without reasoning: it must come back as empty
				}
				return reply.Reasoning(fmt.Sprintf("I read page %d.", r.Step))
			})}
			e := newEnv(t, m, provider(c.api, name), func(cfg *config.Config) {
				cfg.Models = []config.Model{{Name: "mine:" + name, ContextTokens: 9000}}
			})
			e.work(withPage()...)
			sent := e.say(session(t), workflows.Message{Text: "Read the book.",
				ModelSettings: turn.ModelSettings{Effort: turn.EffortHigh}})
			res, err := e.people().Wait(t.Context(), sent)
			require.NoError(t, err)
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			assert.Equal(t, calls, res.ToolCalls)
			assert.NotEmpty(t, e.compactedEvents(res.Turn))
			most, asked := 0, 0 // pieces of reasoning in one request; requests with the effort
			for _, r := range e.model.Requests() {
				assert.Equal(t, fakellm.Sent, r.Outcome)
				if isSummary(r) {
					continue
				}
				if strings.Contains(string(r.Body), c.effort) {
					asked++
				}
				n := 0
				for _, m := range r.Chat.Messages {
					n += len(m.Reasoning)
				}
				most = max(most, n)
			}
			assert.GreaterOrEqual(t, most, 3)
			assert.GreaterOrEqual(t, asked, 3, "a budget of thinking needs room in the window")
			if name != "claude-haiku-4-5" {
				assert.GreaterOrEqual(t, asked, calls)
			}
			for _, effort := range []turn.Effort{turn.EffortLow, turn.EffortOff} {
				before := len(e.model.Requests())
				sent := e.say(session(t), workflows.Message{Text: "Read on: " + string(effort), Tools: []string{"local/quick_page"},
					ModelSettings: turn.ModelSettings{Effort: effort}})
				res, err := e.people().Wait(t.Context(), sent)
				require.NoError(t, err)
				require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
				assert.Equal(t, 3, res.ToolCalls)
				refused := 0
				for _, r := range e.model.Requests()[before:] {
					assert.False(t, strings.Contains(c.effort, "high") && strings.Contains(string(r.Body), c.effort))
					if r.Outcome != fakellm.Sent {
						refused++
					}
				}
				// Without drop_block, which goes with adaptive thinking only, the first request tells that the reasoning of the
				// other turns is of no use any more.
				most := map[bool]int{true: 1}[name == "claude-sonnet-5-5" && effort == turn.EffortOff]
				assert.LessOrEqual(t, refused, most, effort)
			}
		})
	}
}

// TestAnEffortReachesTheModel checks where an effort may be set, which wins, and that the policy caps all.
func TestAnEffortReachesTheModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*config.Config)
		message turn.ModelSettings
		agent   string
		want    string
		asked   turn.Effort
		sent    turn.Effort
	}{
		"llm": {change: func(c *config.Config) { c.LLM.Effort = "low" }, want: `"reasoning_effort":"low"`, asked: "low",
			sent: "low"},
		"provider": {change: func(c *config.Config) { c.LLM.Effort, c.Providers[0].Effort = "low", "medium" },
			want: `"medium"`, asked: "medium", sent: "medium"},
		"agent": {change: func(c *config.Config) { c.Providers[0].Effort = "low" }, agent: "hard", want: `"high"`,
			asked: "high", sent: "high"},
		"message": {agent: "hard", message: turn.ModelSettings{Effort: "off"}, want: `"none"`, asked: "off", sent: "off"},
		"policy": {change: func(c *config.Config) { c.Policy.MaxEffort = "medium" },
			message: turn.ModelSettings{Effort: "max"}, want: `"medium"`,
			asked: "max", sent: "medium"},
		"unset": {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Text("Yes."), provider(turn.APIChat, "thinker"), func(cfg *config.Config) {
				cfg.Agents = []turn.Agent{{ID: "hard", ModelSettings: turn.ModelSettings{Effort: "high"}}}
				if c.change != nil {
					c.change(cfg)
				}
				require.NoError(t, cfg.Validate())
			})
			e.work()
			res := e.result(e.start(session(t), workflows.Input{Agent: c.agent,
				Message: &workflows.Message{Text: "Is it you?", ModelSettings: c.message}}))
			require.Equal(t, "Yes.", res.Answer, res.Message)
			body := string(e.model.Requests()[0].Body)
			var started turn.StartedEvent
			require.NoError(t, json.Unmarshal(e.awaitEvent(res.Turn, turn.EventTurnStarted).Data, &started))
			if c.want == "" {
				assert.NotContains(t, body, "effort")
				assert.Nil(t, started.Effort)
				return
			}
			assert.Contains(t, body, c.want)
			require.NotNil(t, started.Effort)
			assert.Equal(t, c.asked, started.Effort.Asked)
			assert.Equal(t, c.sent, started.Effort.Sent)
			assert.Equal(t, c.asked != c.sent, started.Effort.Why != "")
		})
	}
}

// TestAFallbackHasItsOwnEffort checks that the settings of a message are fitted to each model of a turn, and that what
// the first model refuses ends the turn before a request.
func TestAFallbackHasItsOwnEffort(t *testing.T) {
	t.Parallel()
	gone := fakellm.Status(http.StatusNotFound, "model_not_found", "no such model")
	e := newEnv(t, byModel(map[string]fakellm.Script{"free": gone, "claude-opus-4-8": fakellm.Text("Yes.")}),
		func(c *config.Config) {
			c.Providers = []config.ModelProvider{{ID: "mine", API: turn.APIChat, BaseURL: c.LLM.BaseURL},
				{ID: "claude", API: turn.APIMessages, BaseURL: c.LLM.BaseURL}}
			c.LLM.Provider, c.LLM.Model, c.LLM.BaseURL = config.ProviderAuto, "mine:free", ""
			c.LLM.Fallback = []string{"claude:claude-opus-4-8"}
		})
	e.work()
	warm, seed := 0.5, 7
	sent := e.say(session(t), workflows.Message{Text: "Is it you?",
		ModelSettings: turn.ModelSettings{Temperature: &warm, Seed: &seed}})
	res, err := e.people().Wait(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, "Yes.", res.Answer, res.Message)
	requests := e.model.Requests()
	assert.Contains(t, string(requests[0].Body), `"seed":7`)
	assert.NotContains(t, string(requests[1].Body), "seed")
	var change turn.ModelEvent
	require.NoError(t, json.Unmarshal(e.awaitEvent(res.Turn, turn.EventModelChanged).Data, &change))
	require.Len(t, change.Omitted, 2)
	assert.Equal(t, "temperature", change.Omitted[0].Setting)
	assert.Equal(t, "seed", change.Omitted[1].Setting)

	sent = e.say(session(t)+" 2", workflows.Message{Text: "Is it you?", Model: "claude:claude-opus-4-8",
		ModelSettings: turn.ModelSettings{Seed: &seed}})
	res, err = e.people().Wait(t.Context(), sent)
	require.NoError(t, err)
	assert.Equal(t, turn.CodeInputInvalid, res.Code)
	assert.Len(t, e.model.Requests(), 2, "nothing is sent")
}

// TestAnUnknownModelRefusesASetting checks that a setting that the provider refuses by name is left out, and that the
// events and the ledger say so.
func TestAnUnknownModelRefusesASetting(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if strings.Contains(string(r.Body), "reasoning_effort") {
			return fakellm.Status(http.StatusBadRequest, "invalid_request_error",
				"Unrecognized request argument: reasoning_effort")
		}
		return fakellm.Text("Yes.")
	}), provider(turn.APIChat, "plain"))
	e.work()
	sent := e.say(session(t), workflows.Message{Text: "Is it you?", ModelSettings: turn.ModelSettings{Effort: "high"}})
	res, err := e.people().Wait(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, "Yes.", res.Answer, res.Message)
	var done turn.InferenceEvent
	require.NoError(t, json.Unmarshal(e.awaitEvent(res.Turn, turn.EventInferenceCompleted).Data, &done))
	assert.Equal(t, []string{"effort"}, done.Omitted)
}

// TestAToolChoiceHoldsForTheFirstAnswer: a turn whose every answer must be a call would never end.
func TestAToolChoiceHoldsForTheFirstAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("done")))
	e.work(withEcho()...)
	sent := e.say(session(t), workflows.Message{Text: "Echo.", ModelSettings: turn.ModelSettings{ToolChoice: "local/echo"}})
	res, err := e.people().Wait(t.Context(), sent)
	require.NoError(t, err)
	assert.Equal(t, "done", res.Answer, res.Message)
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.Contains(t, string(requests[0].Body), `"tool_choice":{"type":"function","function":{"name":"local_echo"}}`)
	assert.NotContains(t, string(requests[1].Body), "tool_choice")
	for _, s := range []turn.ModelSettings{{Effort: "extreme"}, {TopP: ptr(2.0)},
		{Stop: slices.Repeat([]string{"x"}, 5)}} {
		_, err := e.people().Send(t.Context(), client.SendInput{Message: workflows.Message{Text: "x", ModelSettings: s}})
		assert.ErrorIs(t, err, client.ErrInvalid, "%+v", s)
	}
}
