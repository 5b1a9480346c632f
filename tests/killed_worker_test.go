package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file kill real worker processes at a point that a ledger has recorded, and let a second worker
// finish. The faults of tests/faults do the same at every point of the journal; these tests keep the histories.

func TestAWorkerIsKilledDuringAnInference(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(
		fakellm.Call("local_list_files", `{}`),
		fakellm.Attempts(fakellm.Text("This text is withdrawn again.").Hold(4, gate), fakellm.Text("There are no files.")),
	))
	first := e.process()
	run := e.begin(t.Name(), "Which files are here?", nil)
	e.reach(gate)
	e.shown(run.GetRunID(), "This text is ")
	first.kill()
	e.process()
	assert.Equal(t, "There are no files.", e.result(run).Answer)
	assert.Equal(t, []int{0, 1, 1}, e.steps(), "only the interrupted inference is asked again, once")
	requests := e.model.Requests()
	assert.Equal(t, string(requests[1].Body), string(requests[2].Body))
	text, _, withdrawn := e.story(run.GetRunID())
	assert.Equal(t, "There are no files.", text)
	assert.Equal(t, 1, withdrawn)
	e.keep("v1-killed-in-inference", t.Name(), run.GetRunID())
}

func TestAWorkerIsKilledDuringACall(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, appendOnce("after"), l.host(config.MCPTool{}))
	first := e.process()
	run := e.begin(t.Name(), "Append it.", nil)
	l.await("effect", "x")
	server := l.server()
	first.kill()
	gone(t, server)
	e.process()
	assert.Equal(t, "Appended.", e.result(run).Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, 1, l.count("begun", "x"), "a call that is not repeatable is not sent again")
	assert.Equal(t, []int{0, 1}, e.steps(), "no inference is asked again")
	assert.Equal(t, turn.OutcomeUnknown, e.calls(run.GetRunID(), 1)[0].Outcome)
	e.keep("v1-killed-in-call", t.Name(), run.GetRunID())
}

// appendOnce appends the line x and then answers.
func appendOnce(block string) fakellm.Script {
	return fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x","block":"`+block+`"}`), fakellm.Text("Appended."))
}
