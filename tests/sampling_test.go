package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// lending lets the server of a ledger ask the model.
func lending(mode config.Sampling, change ...func(*config.MCPServer)) func(*config.Config) {
	return func(c *config.Config) {
		s := &c.MCP.Servers[0]
		s.Sampling, s.SamplingMaxRequests, s.SamplingMaxTokens = mode, 4, 300
		s.Tools["summarise"] = config.MCPTool{Risk: config.RiskLow}
		for _, f := range change {
			f(s)
		}
	}
}

// older makes the server of a ledger know the protocols only in which a call is held while something is asked.
func older(s *config.MCPServer) { s.Args, s.HoldQuestions = append(s.Args, "-old"), within }

// isSample reports whether a request is one that a server has asked for.
func isSample(q script.Request) bool { return q.Chat.Messages[0].Content == "You summarise." }

// summarising calls summarise once and then answers; what the server asks, the model answers with a text.
func summarising(arguments, answer string) script.Script {
	return script.Func(func(q script.Request) script.Reply {
		switch {
		case isSample(q):
			return script.Text(answer)
		case q.Step == 0:
			return script.Call("mcp_ledger_summarise", arguments)
		}
		return script.Text("Summarised.")
	})
}

// lent are the requests that the model has had for servers.
func (r *rig) lent() (out []script.Request) {
	for _, q := range r.model.Requests() {
		if isSample(q) {
			out = append(out, q)
		}
	}
	return out
}

// decides about a request of a server, as it was shown.
func (r *rig) decides(session string, w journal.WaitRecord, allow bool) error {
	_, err := r.people().Approve(r.t.Context(), session, workflows.Approval{Call: w.ID, Allow: allow, ArgumentsHash: w.ArgumentsHash, By: "ann", Reason: "as I like"})
	return err
}

// dying builds the worker that dies where it is told to, once.
var dying = sync.OnceValue(func() error { return build(filepath.Join(binaries.dir, "dying"), "./tests/faults/worker") })

// dies starts a worker that is killed at a point of the journal: METHOD:before|after:N.
func (r *rig) dies(at string) *process {
	r.t.Helper()
	beside := binary(r.t, "./worker")
	require.NoError(r.t, dying())
	return r.run(exec.Command(filepath.Join(filepath.Dir(beside), "dying"), "-config", configFile(r.t, r.cfg), "-kill", at, "-points", filepath.Join(r.dir, "points")))
}

// A server asks the model. A person sees exactly what it would be asked and by whom, and allows it; the answer goes to the
// server and nowhere else, and its tokens are the turn's.
func TestAServerIsLentTheModelWhereAPersonAllowsIt(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x","tokens":500}`, "It is short."), l.host(config.MCPTool{}), lending(config.SamplingAsk))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise the secret plan."})
	wait := r.waits(begun.Turn, 1)[0]
	assert.Equal(t, "s1.0.1.1", wait.ID)
	assert.Equal(t, turn.WaitApproval, wait.Kind)
	assert.Equal(t, "mcp/ledger/summarise", wait.Tool)
	assert.Equal(t, "1.0", wait.Call)
	assert.Contains(t, wait.Why, "the server of this call wants the model's answer to 3 messages, of 300 tokens at most")
	for _, shown := range []string{"You summarise.", "Be brief.", "I will be.", "Summarise, round 1: x", `"max_tokens": 300`, `"END"`, "0.5"} {
		assert.Contains(t, wait.Arguments, shown)
	}
	assert.Equal(t, journal.HashOf([]byte(wait.Arguments)), wait.ArgumentsHash)
	assert.Empty(t, r.lent(), "nothing is sent before it is allowed")
	_, err := r.people().Approve(t.Context(), session(t), workflows.Approval{Call: wait.ID, Allow: true, ArgumentsHash: strings.Repeat("0", 64)})
	require.Error(t, err, "another request than the one that was shown")
	_, err = r.people().Approve(t.Context(), session(t), workflows.Approval{Call: wait.ID, Allow: true, ArgumentsHash: wait.ArgumentsHash, Always: turn.AlwaysTool})
	require.ErrorContains(t, err, "one by one")
	require.NoError(t, r.decides(session(t), wait, true))
	rec := r.answered(session(t), "m1")
	assert.Equal(t, "Summarised.", rec.Answer)

	lent := r.lent()
	require.Len(t, lent, 1)
	assert.Equal(t, 300, lent[0].Chat.MaxTokens+lent[0].Chat.MaxCompletionTokens)
	assert.Empty(t, lent[0].Chat.ToolNames())
	assert.NotContains(t, string(lent[0].Body), "secret plan", "the server's request, and nothing of the session")
	assert.Contains(t, string(lent[0].Body), `"stop":["END"]`)
	assert.Equal(t, 1, l.replied("answered", "x", "assistant scripted endTurn It is short."))
	assert.Equal(t, 1, l.count("effect", "x"))
	messages, _ := r.transcript(session(t))
	for _, m := range messages {
		assert.NotContains(t, m.Text, "It is short.")
	}
	samples, err := r.store.Samples(t.Context(), begun.Turn)
	require.NoError(t, err)
	require.Len(t, samples, 1)
	require.NotNil(t, samples[0].Answer)
	assert.Equal(t, "It is short.", samples[0].Answer.Text)
	var spent int64
	steps, err := r.store.Inferences(t.Context(), begun.Turn)
	require.NoError(t, err)
	for _, s := range steps {
		spent += s.Answer.Usage.Total()
	}
	assert.Positive(t, samples[0].Answer.Usage.Total())
	assert.Equal(t, spent+samples[0].Answer.Usage.Total(), rec.Usage.Total(), "its tokens are the turn's")
	_, kinds, _ := r.story(begun.Turn)
	assert.Equal(t, 1, kinds[turn.ChunkSampleMade])
	r.sound(session(t))
	r.keep("v7-sampled", session(t), begun.Turn)
}

// A server that a person refuses is told so, and its call goes on.
func TestAServerIsRefusedTheModel(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x"}`, "Never said."), l.host(config.MCPTool{}), lending(config.SamplingAsk))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	require.NoError(t, r.decides(session(t), r.waits(begun.Turn, 1)[0], false))
	assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
	call := r.calls(begun.Turn, 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Contains(t, call.Text, "User rejected sampling request: the user denied it: as I like")
	assert.Empty(t, r.lent())
	assert.Zero(t, l.count("effect", "x"))
	r.sound(session(t))
	r.keep("v7-sample-denied", session(t), begun.Turn)
}

// Nobody is asked where the operator trusts the server. Its budget stays: of requests in a turn, and of tokens.
func TestAServerMayAskTheModelOfItselfWithinItsBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arguments string
		mode      config.Sampling
		lent      int
		told      string
	}{
		"four times":    {`{"text":"x","rounds":4}`, config.SamplingAllow, 4, "summarised x"},
		"five times":    {`{"text":"x","rounds":5}`, config.SamplingAllow, 4, "no summary: (No model has answered: it has asked the model 4 times in this turn"},
		"too large":     {`{"text":"x","bytes":40000}`, config.SamplingAllow, 0, "32768 are the most"},
		"with tools":    {`{"text":"x","tools":true}`, config.SamplingAllow, 0, "brings tools, which are not offered to servers"},
		"not let do so": {`{"text":"x"}`, config.SamplingOff, 0, "a model's answer (sampling), which is not offered to servers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			r := newRig(t, summarising(c.arguments, "Short."), l.host(config.MCPTool{}), lending(c.mode))
			r.work()
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
			assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
			assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, c.told)
			assert.Len(t, r.lent(), c.lent)
			waits, err := r.store.Waits(t.Context(), begun.Turn)
			require.NoError(t, err)
			assert.Empty(t, waits)
			r.sound(session(t))
		})
	}
}

// The turn's ceiling of tokens is the server's, too: what is over it is refused before it is sent.
func TestAServerCannotSpendMoreThanTheTurnHas(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Func(func(q script.Request) script.Reply {
		if isSample(q) {
			return script.Text("Short.").Usage(100, 200, 0)
		}
		return script.Call("mcp_ledger_summarise", `{"text":"x","rounds":3,"tokens":1000}`).Usage(200, 10, 0)
	}), l.host(config.MCPTool{}), lending(config.SamplingAllow, func(s *config.MCPServer) { s.SamplingMaxTokens = 400 }),
		func(c *config.Config) { c.Runtime.MaxTokens = 500 })
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	rec := r.answered(session(t), "m1")
	assert.Equal(t, turn.FinishMaxTokens, rec.Reason)
	assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, "no summary: (No model has answered: budget_exceeded: the turn used")
	lent := r.lent()
	require.Len(t, lent, 1, "the second was not sent")
	assert.Equal(t, 290, lent[0].Chat.MaxTokens+lent[0].Chat.MaxCompletionTokens, "what is left, where that is less than what it may have")
	assert.EqualValues(t, 510, rec.Usage.Total())
	r.sound(session(t))
}

// Worker and server are replaced before a person has said anything, and once more after the model has answered. The answer
// is not paid again, and what the server did with it is not done again.
func TestAServersRequestOutlivesWorkerAndServer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x","rounds":2,"block":"before"}`, "Short."), l.host(config.MCPTool{}), lending(config.SamplingAsk))
	old := r.process()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	require.NoError(t, r.decides(session(t), r.waits(begun.Turn, 1)[0], true))
	again := r.waits(begun.Turn, 2)[1] // the first answer is told
	first := l.server()
	old.kill()
	gone(t, first)
	old = r.process()
	require.Eventually(t, func() bool { return r.decides(session(t), again, true) == nil }, within, within/100)
	l.await("begun", "x")
	assert.NotEqual(t, first, l.server())
	old.kill()
	l.open()
	r.process()
	rec := r.answered(session(t), "m1")
	assert.Equal(t, "Summarised.", rec.Answer)
	assert.Len(t, r.lent(), 2, "each was asked once")
	assert.Equal(t, turn.OutcomeUnknown, r.calls(begun.Turn, 1)[0].Outcome, "its server had begun")
	r.sound(session(t))
}

// The worker is killed around the model's answer to a server. What the journal has is not paid again.
func TestASampleThatIsKeptIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	for at, c := range map[string]struct{ sent, attempts int }{
		"StartSample:after:1":   {1, 2}, // nothing was sent yet
		"SettleSample:before:1": {2, 2}, // it was paid for, and nobody knows: this is counted
		"SettleSample:after:1":  {1, 1}, // it is kept, and the workflow does not know
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			r := newRig(t, summarising(`{"text":"x"}`, "Short."), l.host(config.MCPTool{}), lending(config.SamplingAllow))
			first := r.dies(at)
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
			<-first.done
			r.process()
			assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
			assert.Len(t, r.lent(), c.sent)
			samples, err := r.store.Samples(t.Context(), begun.Turn)
			require.NoError(t, err)
			require.Len(t, samples, 1)
			assert.Equal(t, c.attempts, samples[0].Attempt)
			assert.Equal(t, 1, l.count("effect", "x"))
			assert.Equal(t, turn.OutcomeOK, r.calls(begun.Turn, 1)[0].Outcome)
			r.sound(session(t))
		})
	}
}

// What a stop leaves of a server's request: nobody asks the model, and the session's next turn goes on.
func TestAStopLeavesAServersRequest(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x"}`, "Short."), l.host(config.MCPTool{}), lending(config.SamplingAsk))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	wait := r.waits(begun.Turn, 1)[0]
	require.NoError(t, r.people().Stop(t.Context(), session(t)))
	assert.Equal(t, turn.StateCancelled, r.ended(begun.Turn).State)
	require.Error(t, r.decides(session(t), wait, true))
	assert.Empty(t, r.lent())
	assert.Equal(t, turn.OutcomeUnknown, r.calls(begun.Turn, 1)[0].Outcome)
	r.sound(session(t))
	r.keep("v7-sample-stopped", session(t), begun.Turn)
}

// A server of an older protocol holds its call for the model's answer, where it may hold calls at all.
func TestAnOlderServerIsLentTheModelWhileItHoldsItsCall(t *testing.T) {
	t.Parallel()
	for _, allow := range []bool{true, false} {
		t.Run(fmt.Sprint(allow), func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			r := newRig(t, summarising(`{"text":"x"}`, "Short."), l.host(config.MCPTool{}), lending(config.SamplingAllow, older))
			r.work()
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
			wait := r.waits(begun.Turn, 1)[0]
			assert.Equal(t, "h1.0.1.1", wait.ID)
			assert.Contains(t, wait.Arguments, "Summarise, round 1: x")
			require.NoError(t, r.decides(session(t), wait, allow))
			rec := r.answered(session(t), "m1")
			assert.Equal(t, "Summarised.", rec.Answer)
			if !allow {
				assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, "User rejected sampling request")
				assert.Empty(t, r.lent())
				return
			}
			assert.Equal(t, 1, l.replied("answered", "x", "assistant scripted endTurn Short."))
			require.Len(t, r.lent(), 1)
			samples, err := r.store.Samples(t.Context(), begun.Turn)
			require.NoError(t, err)
			assert.Greater(t, rec.Usage.Total(), samples[0].Answer.Usage.Total())
			r.sound(session(t))
			r.keep("v7-sampled-held", session(t), begun.Turn)
		})
	}
}

// What an older server has asked for dies with the worker that held its call: nobody decides about it any more, and nothing
// is paid for it.
func TestWhatACallIsHeldForEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x"}`, "Never."), l.host(config.MCPTool{}), lending(config.SamplingAllow, older))
	first := r.process()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	wait := r.waits(begun.Turn, 1)[0]
	first.kill()
	r.process()
	assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
	assert.Equal(t, turn.OutcomeUnknown, r.calls(begun.Turn, 1)[0].Outcome)
	waits, err := r.store.Waits(t.Context(), begun.Turn)
	require.NoError(t, err)
	require.Len(t, waits, 1)
	require.NotNil(t, waits[0].Ruling)
	assert.Equal(t, turn.VerdictExpired, waits[0].Ruling.Verdict)
	assert.Equal(t, journal.HeldEnded, waits[0].Ruling.Reason)
	require.Error(t, r.decides(session(t), wait, true))
	assert.Empty(t, r.lent())
	r.sound(session(t))
}

// Without the operator's word an older server is not told that it may ask.
func TestAnOlderServerMayNotAskTheModelWithoutHolding(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, summarising(`{"text":"x"}`, "Never."), l.host(config.MCPTool{}),
		lending(config.SamplingAllow, older, func(s *config.MCPServer) { s.HoldQuestions = 0 }))
	r.work()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
	assert.Equal(t, "Summarised.", r.answered(session(t), "m1").Answer)
	assert.Contains(t, r.calls(begun.Turn, 1)[0].Text, "no summary:")
	assert.Empty(t, r.lent())
}

// replied counts the answers of a kind that a server has noted.
func (l *ledger) replied(event, text, reply string) int {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	return bytes.Count(b, fmt.Appendf(nil, "{\"event\":%q,\"text\":%q,\"reply\":%q}\n", event, text, reply))
}
