package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file make calls whose servers elicit more than once: a response is for the elicitation that was
// shown.

// TestAReplyAnswersNoLaterQuestion kills the worker when the server has elicited for the second time and only the
// journal knows it. The first response must not answer the second elicitation, although both have the same name.
func TestAReplyAnswersNoLaterQuestion(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(script.Call("mcp_ledger_confirm", `{"text":"x","rounds":2}`), script.Text("Confirmed.")),
		l.host(config.MCPTool{}))
	first := r.dies("SuspendCall:after:2")
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	require.NoError(t, r.reply(session(t), r.waits(begun.ID, 1)[0], turn.ElicitationAccept, `{"sure":true,"note":"one"}`))
	<-first.done
	r.process()
	again := r.waits(begun.ID, 2)[1]
	assert.Equal(t, "e1.0.2", again.ID)
	assert.Equal(t, "Append x, round 2?", again.Question)
	require.NoError(t, r.reply(session(t), again, turn.ElicitationAccept, `{"sure":true,"note":"two"}`))
	assert.Equal(t, "Confirmed.", r.answered(session(t), "m1").Answer)
	for _, note := range []string{"one", "two"} {
		assert.Equal(t, 1, l.replied("replied", "x", `accept {"note":"`+note+`","sure":true}`), note)
	}
	assert.Equal(t, 2, l.count("asked", "x"), "the server itself was not asked again")
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, 3, r.calls(begun.ID, 1)[0].Runs, "the dispatch that only asked again is none")
	r.sound(session(t))
}

// TestAQuestionWhoseDispatchWasLostIsAskedAsItIs kills the worker when the server has elicited for the first time. No
// response exists yet, so the elicitation is shown without a note about an invalid response.
func TestAQuestionWhoseDispatchWasLostIsAskedAsItIs(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(confirm("x"), script.Text("Confirmed.")), l.host(config.MCPTool{}))
	first := r.dies("SuspendCall:after:1")
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	<-first.done
	r.process()
	request := r.waits(begun.ID, 1)[0]
	assert.Equal(t, "Append x, round 1?", request.Question)
	require.NoError(t, r.reply(session(t), request, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", r.answered(session(t), "m1").Answer)
	assert.Equal(t, 1, l.count("asked", "x"))
	assert.Equal(t, 1, l.count("effect", "x"))
	r.sound(session(t))
}

// TestWhatAServerAsksSurvivesAReset resets a turn while an elicitation is pending. The same elicitation is pending
// afterwards.
func TestWhatAServerAsksSurvivesAReset(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(confirm("x"), script.Text("Done.")), l.host(config.MCPTool{}))
	r.work()
	run := r.begin(session(t), "Do it.", nil)
	request := r.waits(run.GetRunID(), 1)[0]
	again := r.reset(run, r.tasks(run)[0])
	require.Eventually(t,
		func() bool { return r.reply(session(t), request, turn.ElicitationAccept, `{"sure":true}`) == nil },
		within, within/100, "the turn waits again")
	assert.Equal(t, turn.FinishAnswered, r.result(again).FinishReason)
	assert.Equal(t, 1, l.count("asked", "x"))
	assert.Equal(t, 1, l.count("effect", "x"))
	requests, err := r.store.Requests(t.Context(), run.GetRunID())
	require.NoError(t, err)
	assert.Len(t, requests, 1, "it was asked once")
	r.sound(session(t))
}
