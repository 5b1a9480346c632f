package tests

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAnUnknownModelWithoutTools checks that a model that the list lacks, and whose server refuses tools, goes on with
// JSON actions, also on another worker; and that the ledger of a turn shows the change once.
func TestAnUnknownModelWithoutTools(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{
		"registry.ollama.ai/library/plain:latest does not support tools",
		"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
		"No endpoints found that support tool use. Try disabling \"local_echo\".",
	} {
		json2 := fakellm.Steps(fakellm.JSONCall("local_echo", `{"text":"a"}`), fakellm.JSONFinal("done"))
		e := newEnv(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
			if len(r.Chat.Tools) > 0 {
				return fakellm.Status(http.StatusBadRequest, "api_error", refusal)
			}
			return json2.Reply(r)
		}), provider(turn.APIChat, "plain"))
		e.work(withEcho()...)
		res := e.ask(session(t)+refusal[:8], "Echo.")
		require.Equal(t, "done", res.Answer, res.Message)
		assert.Equal(t, 1, res.ToolCalls)
		assert.Len(t, e.model.Requests(), 3, "only the first request has tools")
		_, kinds, _ := e.story(res.Turn)
		assert.Equal(t, 1, kinds[turn.EventModelChanged])
		var change turn.ModelEvent
		require.NoError(t, json.Unmarshal(e.awaitEvent(res.Turn, turn.EventModelChanged).Data, &change))
		assert.Equal(t, turn.ModeJSON, change.Mode)
		assert.Equal(t, "plain", change.Model)
	}
}

// TestAListedModelThatRefusesToolsFails checks that what the operator says of a model counts.
func TestAListedModelThatRefusesToolsFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Status(http.StatusBadRequest, "api_error", "plain does not support tools"),
		provider(turn.APIChat, "plain"), func(c *config.Config) {
			c.Models = []config.Model{{Name: "mine:plain", Capabilities: []string{"tool_use"}}}
		})
	e.work(withEcho()...)
	_, res := e.failure(e.begin(session(t), "Echo.", nil))
	assert.Equal(t, turn.CodeLLMRejected, res.Code)
}

// TestAPromptBeyondTheWindowIsNotSent checks that a prompt that surely exceeds the context window is not sent, although
// prompts are not compacted, and that a limit of output tokens leaves room for the prompt.
func TestAPromptBeyondTheWindowIsNotSent(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Yes."), func(c *config.Config) {
		c.Prompt.Compaction, c.LLM.MaxOutputTokens = config.CompactionOff, 5000
		c.Models = []config.Model{{Name: c.LLM.Model, ContextTokens: 6000}}
	})
	e.work()
	_, res := e.failure(e.begin(session(t), strings.Repeat("one two three four ", 3000), nil))
	assert.Equal(t, turn.CodeContextOverflow, res.Code, res.Message)
	assert.Empty(t, e.model.Requests())
	res = e.ask(session(t)+" 2", strings.Repeat("one two three four ", 600))
	assert.Equal(t, "Yes.", res.Answer, res.Message)
	sent := e.model.Requests()[0].Chat
	assert.Less(t, sent.MaxTokens, 3000)
	assert.Greater(t, sent.MaxTokens, 1000)
}
