package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// sampledOnce is the one sample of a turn.
func (r *rig) sampledOnce(turnID string) journal.SampleRecord {
	r.t.Helper()
	samples, err := r.store.Samples(r.t.Context(), turnID)
	require.NoError(r.t, err)
	require.Len(r.t, samples, 1)
	return samples[0]
}

// sampledAs has a server ask the model, which answers that by a script of its own.
func sampledAs(answer script.Script) script.Script {
	return script.Func(func(q script.Request) script.Reply {
		if isSample(q) {
			return answer.Reply(q)
		}
		return summarising(`{"text":"x"}`, "").Reply(q)
	})
}

// What goes wrong with the provider is tried again, as often as for a step of the turn; what stays wrong the server is told.
func TestASampleFailsLikeAnInference(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model    script.Script
		sent     int
		failures int
		told     string
	}{
		"for a moment": {script.Attempts(script.Status(503, "busy", "later"), script.Text("Short.")), 2, 1, "summarised x"},
		"for good": {script.Status(400, "invalid_request_error", "no"), 1, 1,
			"no summary: (No model has answered: llm_rejected: the model has not answered)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sampledAs(c.model), newLedger(t).host(config.MCPTool{}), lending(config.SamplingAllow))
			r.work()
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
			assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
			assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, c.told)
			assert.Len(t, r.lent(), c.sent)
			assert.Equal(t, c.failures, r.sampledOnce(begun.Turn).Failures)
			r.sound(session(t))
		})
	}
}

// A stop does not wait for what the model has to say to a server.
func TestAStopDoesNotWaitForASample(t *testing.T) {
	t.Parallel()
	gate := script.NewGate()
	r := newRig(t, sampledAs(script.Text("Never.").Hold(0, gate)), newLedger(t).host(config.MCPTool{}), lending(config.SamplingAllow))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	r.reach(gate)
	require.NoError(t, r.people().Stop(t.Context(), session(t)))
	assert.Equal(t, turn.StateCancelled, r.ended(begun.Turn).State)
	gate.Release()
	assert.False(t, r.sampledOnce(begun.Turn).Over(), "nobody takes the answer of a turn that was stopped")
	r.sound(session(t))
}

// Nobody says anything in time: nothing is asked, the server is told, and the turn goes on.
func TestASampleThatNobodyAllowsExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, summarising(`{"text":"x"}`, "Never."), newLedger(t).host(config.MCPTool{}), lending(config.SamplingAsk),
		func(c *config.Config) { c.People.ApprovalExpiry = time.Second })
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
	assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, "nobody has allowed it in time")
	assert.Empty(t, r.lent())
	r.sound(session(t))
}

// Several calls of one answer ask: people are asked for all at once, and each server is told its own.
func TestSamplesOfOneAnswerAreAskedForTogether(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Func(func(q script.Request) script.Reply {
		switch {
		case isSample(q):
			return script.Text("To " + q.Chat.Last("user").Content)
		case q.Step == 0:
			return script.Calls(script.ToolCall{Name: "mcp_ledger_summarise", Arguments: `{"text":"x"}`}, script.ToolCall{Name: "mcp_ledger_summarise", Arguments: `{"text":"y"}`},
				script.ToolCall{Name: "mcp_ledger_confirm", Arguments: `{"text":"z"}`})
		}
		return script.Text("Done.")
	}), l.host(config.MCPTool{}), lending(config.SamplingAsk))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise them."})
	require.NoError(t, r.reply(session(t), r.waits(begun.Turn, 1)[0], turn.ReplyAccept, `{"sure":true}`), "questions come first")
	waits := r.waits(begun.Turn, 3)
	require.NoError(t, r.decides(session(t), waits[1], true))
	require.Eventually(t, func() bool { return r.waits(begun.Turn, 3)[1].Ruling != nil }, within, 10*time.Millisecond)
	require.NoError(t, r.decides(session(t), waits[2], false))
	assert.Equal(t, "Done.", r.answered(session(t), "m1").Answer)
	calls := r.calls(begun.Turn, 3)
	assert.Contains(t, calls[0].Text, "summarised x")
	assert.Contains(t, calls[1].Text, "no summary: (User rejected sampling request")
	assert.Contains(t, calls[2].Text, "appended z")
	assert.Len(t, r.lent(), 1)
	assert.Equal(t, 1, l.replied("answered", "x", "assistant scripted endTurn To Summarise, round 1: x"))
	r.sound(session(t))
	r.keep("v7-sampled-mixed", session(t), begun.Turn)
}
