package tests

import (
	"context"
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
