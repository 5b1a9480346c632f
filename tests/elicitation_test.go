package tests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func confirm(text string) fakellm.Reply {
	return fakellm.Call("mcp_ledger_confirm", `{"text":"`+text+`"}`)
}

// reply responds to an elicitation.
func (e *env) reply(session string, w turn.Request, action turn.ElicitationAction, content string) error {
	err := e.people().Respond(e.t.Context(), client.DecideInput{Session: session,
		Request: w.ID, By: "ann", Response: &turn.ElicitationResponse{Action: action, Content: json.RawMessage(content)},
	})
	return err
}

// TestAnElicitationSurvivesWorkerAndServer checks that an elicitation belongs to the turn: a response continues the
// call on another worker with another process of the server.
func TestAnElicitationSurvivesWorkerAndServer(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Confirmed.")), l.host(config.MCPTool{}))
	old := e.process()
	begun := e.say(t.Name(), workflows.Message{Text: "Confirm it."})
	request := e.waits(begun.ID, 1)[0]
	assert.Equal(t, "e1.0.1", request.ID)
	assert.Equal(t, turn.RequestElicitation, request.Kind)
	require.NotNil(t, request.Elicitation)
	assert.Contains(t, string(request.Elicitation.Schema), "sure")
	first := l.server()
	old.kill()
	gone(t, first)
	e.process()
	require.NoError(t, e.reply(t.Name(), request, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", e.ended(begun.ID).Answer)
	assert.NotEqual(t, first, l.server(), "another process of the server has done it")
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, turn.OutcomeOK, e.calls(begun.ID, 1)[0].Outcome)
	e.keep("v1-elicited", t.Name(), begun.ID)
}

// TestElicitationResponsesAreValidated checks that an invalid response reaches no server, that a response that does not
// match the schema is requested again, and that a second response is too late.
func TestElicitationResponsesAreValidated(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Not confirmed.")), l.host(config.MCPTool{}))
	e.work()
	begun := e.say(t.Name(), workflows.Message{Text: "Confirm it."})
	request := e.waits(begun.ID, 1)[0]
	err := e.people().Answer(t.Context(), client.DecideInput{Session: t.Name(), Request: request.ID, Text: "yes"})
	require.ErrorContains(t, err, "fields")
	require.ErrorContains(t, e.reply(t.Name(), request, "perhaps", `{}`), "accept, decline or cancel")
	require.ErrorContains(t, e.reply(t.Name(), request, turn.ElicitationAccept, `[1]`), "JSON object")
	require.NoError(t, e.reply(t.Name(), request, turn.ElicitationAccept, `{"sure":"maybe"}`))
	again := e.waits(begun.ID, 2)[1]
	assert.Equal(t, "e1.0.2", again.ID)
	assert.Zero(t, l.count("replied", "x"), "an answer that does not fit was not sent")
	require.Error(t, e.reply(t.Name(), request, turn.ElicitationAccept, `{"sure":true}`), "it was answered")
	require.NoError(t, e.reply(t.Name(), again, turn.ElicitationDecline, ""))
	assert.Equal(t, "Not confirmed.", e.ended(begun.ID).Answer)
	assert.Zero(t, l.count("effect", "x"))
	assert.Contains(t, e.calls(begun.ID, 1)[0].Text, "not appended x: decline")
	e.keep("v1-elicited-again", t.Name(), begun.ID)
}

// TestAStopDuringAnElicitationLeavesTheCallUnknown checks that a call is unknown if its turn is stopped while an
// elicitation is pending, because its server has begun the call.
func TestAStopDuringAnElicitationLeavesTheCallUnknown(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Cases(
		fakellm.When("first", fakellm.Steps(confirm("x"), fakellm.Text("Confirmed."))),
		fakellm.When("second", fakellm.Text("The second answer.")),
	), l.host(config.MCPTool{}))
	e.work()
	begun := e.say(t.Name(), workflows.Message{Text: "the first"})
	request := e.waits(begun.ID, 1)[0]
	require.NoError(t, e.people().Stop(t.Context(), t.Name()))
	assert.Equal(t, turn.StateCancelled, e.ended(begun.ID).State)
	require.Error(t, e.reply(t.Name(), request, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, turn.OutcomeUnknown, e.calls(begun.ID, 1)[0].Outcome)
	assert.Equal(t, "The second answer.", e.ended(e.say(t.Name(), workflows.Message{Text: "the second"}).ID).Answer)
	assert.Zero(t, l.count("effect", "x"))
	e.keep("v1-elicited-stopped", t.Name(), begun.ID)
}
