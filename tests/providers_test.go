package tests

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// TestEveryWireAPICarriesASession runs two turns over each wire API, with a new worker for the second one. The fake
// refuses the second turn's requests unless the reasoning of the first comes back from the journal unchanged.
func TestEveryWireAPICarriesASession(t *testing.T) {
	t.Parallel()
	for _, api := range []turn.API{turn.APIChat, turn.APIResponses, turn.APIMessages} {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			call := fakellm.Calls(fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"a"}`},
				fakellm.ToolCall{Name: "local_quick_echo", Arguments: `{"text":"b"}`}).Reasoning("I echo twice.")
			e := newEnv(t, fakellm.Steps(call.Counts(fakellm.Usage{Prompt: 90, Completion: 9, Cached: 60, CacheWrite: 20,
				Reasoning: 5}), fakellm.Text("Echoed.").Usage(10, 1, 0)), func(c *config.Config) {
				c.LLM.Provider, c.LLM.Model = config.ProviderAuto, "mine:thinker"
				c.Providers = []config.ModelProvider{{ID: "mine", API: api, BaseURL: c.LLM.BaseURL}}
				c.LLM.BaseURL = ""
			})
			stop := e.work(withEcho()...)
			res := e.ask(session(t), "Echo.")
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			assert.Equal(t, 2, res.ToolCalls)
			assert.Equal(t, "thinker", res.Model)
			assert.Equal(t, turn.Usage{InputTokens: 100, OutputTokens: 10, CachedTokens: 60, CacheWriteTokens: 20,
				ReasoningTokens: 5, Unpriced: true}, res.Usage)
			stop()

			e.work(withEcho()...)
			res = e.ask(session(t), "And again.")
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			requests := e.model.Requests()
			require.Len(t, requests, 4)
			var reasoning []string
			for _, m := range requests[3].Chat.Messages {
				reasoning = append(reasoning, m.Reasoning...)
			}
			assert.Equal(t, []string{"I echo twice.", "I echo twice."}, reasoning)
			assert.Equal(t, string(api), requests[0].API)
			if api == turn.APIResponses {
				assert.NotEmpty(t, requests[0].Chat.CacheKey)
				assert.Equal(t, requests[0].Chat.CacheKey, requests[3].Chat.CacheKey)
				assert.NotContains(t, requests[0].Chat.CacheKey, session(t))
			}
		})
	}
}

// TestAProviderOtherThanOpenAIIsTheDefault runs turns whose provider is Anthropic, by a key and by its name, with the
// provider's default model, a selection and a fallback.
func TestAProviderOtherThanOpenAIIsTheDefault(t *testing.T) {
	t.Parallel()
	gone := fakellm.Status(http.StatusNotFound, "model_not_found", "no such model")
	cheap, costly := ptr(1.0), ptr(10.0)
	for name, c := range map[string]struct {
		change func(*config.Config)
		script map[string]fakellm.Script
		want   string
	}{
		"only its key": {func(c *config.Config) { c.LLM.Provider = config.ProviderAuto },
			map[string]fakellm.Script{"claude-sonnet-5-5": fakellm.Text("Yes.")}, "claude-sonnet-5-5"},
		"by name": {func(c *config.Config) { c.LLM.Provider = "anthropic" },
			map[string]fakellm.Script{"claude-sonnet-5-5": fakellm.Text("Yes.")}, "claude-sonnet-5-5"},
		"a selection": {func(c *config.Config) {
			c.LLM.Provider, c.LLM.Select.Preference = "anthropic", "cost_first"
			c.Models = []config.Model{{Name: "anthropic:costly", InputPrice: costly, OutputPrice: costly},
				{Name: "anthropic:cheap", InputPrice: cheap, OutputPrice: cheap}}
		}, map[string]fakellm.Script{"cheap": fakellm.Text("Yes.")}, "cheap"},
		"a selection and a fallback": {func(c *config.Config) {
			c.LLM.Provider, c.LLM.Select.Preference = config.ProviderAuto, "quality_first"
			c.LLM.Fallback = []string{"mine:other"}
			c.Models = []config.Model{{Name: "anthropic:good", Quality: 1}, {Name: "anthropic:bad", Quality: 2}}
			c.Providers = append(c.Providers, config.ModelProvider{ID: "mine", API: turn.APIChat,
				BaseURL: c.Providers[0].BaseURL})
		}, map[string]fakellm.Script{"good": gone, "other": fakellm.Text("Yes.")}, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, byModel(c.script), func(cfg *config.Config) {
				cfg.Providers = []config.ModelProvider{{ID: "anthropic", API: config.APIAuto, BaseURL: cfg.LLM.BaseURL, APIKey: "k"}}
				cfg.LLM.BaseURL, cfg.LLM.Model = "", ""
				c.change(cfg)
				require.NoError(t, cfg.Validate())
			})
			e.work()
			res := e.ask(session(t), "Is it you?")
			assert.Equal(t, "Yes.", res.Answer, res.Message)
			assert.Equal(t, c.want, res.Model)
			assert.Equal(t, string(turn.APIMessages), e.model.Requests()[0].API)
		})
	}
}

// parrot is a model of a program's own.
type parrot struct{}

func (parrot) Takes(turn.Prompt, string) bool { return false }

func (parrot) Infer(_ context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	text := "You said: " + p.Messages[len(p.Messages)-1].Text
	sink.Text(text)
	return turn.Completion{Text: text, FinishReason: "stop"}, nil
}

func TestAProgramBringsItsOwnModel(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Empty())
	e.work(engine.WithModel(parrot{}))
	assert.Equal(t, "You said: Polly", e.ask(session(t), "Polly").Answer)
	assert.Empty(t, e.model.Requests())
}
