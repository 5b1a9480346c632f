package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// remembering returns a harness whose server counts the calls to its process and has session affinity for a turn.
func remembering(t *testing.T, s fakellm.Script) *env {
	l := newEffectServer(t)
	return newEnv(t, s, l.host(config.MCPTool{}),
		func(c *config.Config) { c.MCP.Servers[0].SessionAffinity = config.AffinityTurn })
}

func remember(text string) fakellm.Reply {
	return fakellm.Call("mcp_ledger_remember", `{"text":"`+text+`"}`)
}

func TestSessionAffinityKeepsATurnOnOneProcess(t *testing.T) {
	t.Parallel()
	two := fakellm.Calls(fakellm.ToolCall{Name: "mcp_ledger_remember", Arguments: `{"text":"a"}`},
		fakellm.ToolCall{Name: "mcp_ledger_remember", Arguments: `{"text":"b"}`})
	e := remembering(t, fakellm.Steps(two, remember("c"), remember("d"), fakellm.Text("Remembered.")))
	for range 3 {
		e.process()
	}
	for _, session := range []string{t.Name() + "-1", t.Name() + "-2"} {
		run := e.begin(session, "Remember it.", nil)
		require.Equal(t, turn.StateCompleted, e.result(run).State)
		var output []string
		for _, c := range e.calls(run.GetRunID(), 4) {
			output = append(output, c.Text)
		}
		assert.ElementsMatch(t, []string{"remembered a as number 1", "remembered b as number 2"}, swapped(output[:2]),
			"calls of one answer share a process")
		assert.Equal(t, []string{"remembered c as number 3", "remembered d as number 4"}, output[2:],
			"each turn has a process of its own")
		e.keep("v1-stateful", session, run.GetRunID())
	}
}

// swapped orders the results of two parallel calls by their letters, whichever call ran first.
func swapped(output []string) []string {
	if output[0] == "remembered a as number 2" && output[1] == "remembered b as number 1" {
		return []string{"remembered a as number 1", "remembered b as number 2"}
	}
	return output
}

func TestLostServerStateIsReported(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := remembering(t, fakellm.Steps(
		remember("a"),
		remember("b").Hold(1, gate),
		remember("c"),
		fakellm.Text("It has forgotten."),
	))
	old := e.process()
	run := e.begin(t.Name(), "Remember it.", nil)
	e.reach(gate)
	old.kill()
	gate.Release()
	e.process()
	res := e.result(run)
	assert.Equal(t, "It has forgotten.", res.Answer)
	calls := e.calls(run.GetRunID(), 3)
	assert.Equal(t, turn.OutcomeError, calls[1].Outcome)
	assert.Contains(t, calls[1].Text, "server state lost")
	assert.Equal(t, "remembered c as number 1", calls[2].Text, "the next call begins anew, which the model knows")
	e.keep("v1-state-lost", t.Name(), run.GetRunID())
}
