package tests

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAnInterruptedAnswerIsInTheNextPrompt stops a turn in the middle of its second inference, over each wire API. The
// next prompts have the text that the user has seen and extend each other's bytes, and the usage of the stopped
// inference is estimated at once.
func TestAnInterruptedAnswerIsInTheNextPrompt(t *testing.T) {
	t.Parallel()
	// The events before the fifth word differ between the wire APIs.
	for api, before := range map[turn.API]int{turn.APIChat: 6, turn.APIResponses: 11, turn.APIMessages: 12} {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			defer gate.Release()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("Explain.", fakellm.Steps(
					fakellm.Call("local_quick_echo", `{"text":"a"}`).WithText("Let me look.").Usage(100, 10, 0),
					fakellm.Text("The answer to it all is long.").Reasoning("Hm.").Hold(before, gate))),
				fakellm.When("", fakellm.Text("Done.").Usage(50, 5, 0))), func(c *config.Config) {
				c.Models = []config.Model{{Name: "mine:" + c.LLM.Model, InputPrice: ptr(1.0), OutputPrice: ptr(10.0)}}
				c.LLM.Provider, c.LLM.Model = config.ProviderAuto, "mine:"+c.LLM.Model
				c.Providers = []config.ModelProvider{{ID: "mine", API: api, BaseURL: c.LLM.BaseURL}}
				c.LLM.BaseURL = ""
			})
			e.work(withEcho()...)
			run := e.begin(session(t), "Explain.", nil)
			<-gate.Reached()
			const seen = "The answer to it "
			e.shown(run.GetRunID(), seen)
			require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
			res := e.cancelledRun(run)
			assert.Equal(t, seen, res.Answer)
			assert.True(t, res.Usage.Estimated)
			assert.Greater(t, res.Usage.InputTokens, int64(100))
			assert.Greater(t, res.Usage.OutputTokens, int64(10))
			assert.Positive(t, res.Usage.Cost)
			messages, _ := e.transcript(session(t))
			require.Len(t, messages, 4)
			assert.Equal(t, turn.Message{Role: turn.RoleAssistant, Text: seen, Outcome: turn.OutcomeCancelled,
				TurnID: run.GetRunID(), Step: 2}, messages[3])

			for _, text := range []string{"Go on.", "And now?"} {
				assert.Equal(t, "Done.", e.ask(session(t), text).Answer)
			}
			requests := e.model.Requests()
			require.Len(t, requests, 4)
			var roles []string
			for _, m := range requests[2].Chat.Messages {
				if m.Role != "system" {
					roles = append(roles, m.Role)
				}
			}
			assert.Equal(t, []string{"user", "assistant", "tool", "assistant", "user"}, roles)
			assert.Equal(t, seen+"\n\n[The user interrupted this answer here.]", requests[2].Chat.Last("assistant").Content)
			first, second := sentMessages(t, requests[2]), sentMessages(t, requests[3])
			assert.True(t, bytes.HasPrefix(second, first[:len(first)-1]), "%s\n%s", first, second)
		})
	}
}

// sentMessages returns the list of messages in a request's body.
func sentMessages(t *testing.T, r fakellm.Request) json.RawMessage {
	t.Helper()
	var body struct{ Messages, Input json.RawMessage }
	require.NoError(t, json.Unmarshal(r.Body, &body))
	if body.Input != nil {
		return body.Input
	}
	return body.Messages
}

// TestAnAnswerIsKeptWhenTheTimeOfItsTurnIsUp ends a turn by its turn_timeout while the answer streams.
func TestAnAnswerIsKeptWhenTheTimeOfItsTurnIsUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(fakellm.When("Explain.", fakellm.Text("The answer is long.").StallAfter(3)),
		fakellm.When("", fakellm.Text("Done."))), priced)
	e.work()
	run := e.begin(session(t), "Explain.", &workflows.LimitsRequest{TurnTimeout: ptr("2s")})
	res := e.result(run)
	assert.Equal(t, turn.FinishTimeout, res.FinishReason)
	assert.NotEmpty(t, res.Answer)
	assert.True(t, res.Usage.Estimated)
	assert.Positive(t, res.Usage.OutputTokens)
	assert.Equal(t, "Done.", e.ask(session(t), "Go on.").Answer)
	assert.Equal(t, res.Answer+"\n\n[This answer was cut off here.]", e.model.Requests()[1].Chat.Last("assistant").Content)
}
