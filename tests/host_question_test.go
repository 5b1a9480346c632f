package tests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAServersQuestionIsAnsweredAfterWorkerAndServerWereReplaced kills the server and the worker while an elicitation
// is pending, and starts others, as after a deployment. The call continues there, does not start over, and has one
// effect.
func TestAServersQuestionIsAnsweredAfterWorkerAndServerWereReplaced(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(script.Call("mcp_ledger_confirm", `{"text":"x","rounds":2}`), script.Text("Appended.")),
		l.host(config.MCPTool{}),
		func(c *config.Config) { c.MCP.Servers[0].Tools["confirm"] = config.MCPTool{Risk: turn.RiskLow} })
	first := r.process()
	a := r.say(t.Name(), workflows.Message{ID: "m1", Text: "Append it, if I may say so."})
	for round := 1; round <= 2; round++ {
		w := r.waits(a.ID, round)[round-1]
		assert.Equal(t, turn.RequestElicitation, w.Kind)
		require.NotNil(t, w.Elicitation)
		assert.Contains(t, w.Elicitation.Message, "Append x")
		require.JSONEq(t, `["sure"]`, string(required(t, w.Elicitation.Schema)))
		require.Equal(t, round, l.count("asked", "x"))
		server := l.server()
		first.kill()
		gone(t, server)
		first = r.process()
		require.Eventually(t, func() bool {
			err := r.people().Respond(t.Context(),
				client.RespondInput{Session: t.Name(), Turn: a.ID, Request: w.ID, By: "somebody",
					Response: turn.ElicitationResponse{Action: turn.ElicitationAccept,
						Content: json.RawMessage(`{"sure":true,"note":"by another"}`)}})
			return err == nil
		}, within, 100*time.Millisecond)
	}
	rec := r.answered(t.Name(), "m1")
	assert.Equal(t, "Appended.", rec.Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, 1, l.count("begun", "x"))
	assert.Equal(t, 2, l.count("asked", "x"), "nothing was asked twice")
	call := r.calls(a.ID, 1)[0]
	assert.Equal(t, turn.OutcomeOK, call.Outcome)
	assert.Equal(t, "appended x", call.Text)
	requests := r.model.Requests()
	assert.Len(t, requests, 2, "no inference was asked again")
	assert.Contains(t, requests[1].Chat.Last("tool").Content, "appended x")
	r.sound(t.Name())
}

// required returns a schema's list of required fields.
func required(t *testing.T, schema json.RawMessage) json.RawMessage {
	t.Helper()
	var s struct {
		Required json.RawMessage `json:"required"`
	}
	require.NoError(t, json.Unmarshal(schema, &s))
	return s.Required
}

// TestAServersQuestionMayBeDeclined checks that declining an elicitation ends the call without an effect, and that the
// model continues.
func TestAServersQuestionMayBeDeclined(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply turn.ElicitationResponse
		heard string
	}{
		"declined": {turn.ElicitationResponse{Action: turn.ElicitationDecline}, "decline"},
		"not sure": {turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage(`{"sure":false}`)},
			"accept"},
		"cancelled": {turn.ElicitationResponse{Action: turn.ElicitationCancel}, "cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := newSuspect(t, "shop")
			r := newRig(t, script.Steps(script.Call("mcp_shop_confirm", `{"text":"x"}`), script.Text("Then not.")), shop.host())
			r.work()
			a := r.say(session(t), workflows.Message{ID: "m1", Text: "Append it, if I may say so."})
			w := r.waits(a.ID, 1)[0]
			err := r.people().Respond(t.Context(),
				client.RespondInput{Session: session(t), Turn: a.ID, Request: w.ID, Response: c.reply})
			require.NoError(t, err)
			assert.Equal(t, "Then not.", r.answered(session(t), "m1").Answer)
			assert.Zero(t, shop.noted("effect", "x"))
			assert.Contains(t, r.calls(a.ID, 1)[0].Text, "not appended x: "+c.heard)
		})
	}
}

// TestAServerThatAsksWithoutEndComesToOne runs a server that elicits endlessly. After a bounded number of responses the
// server is told that no response will come, and the turn completes.
func TestAServerThatAsksWithoutEndComesToOne(t *testing.T) {
	t.Parallel()
	shop := newSuspect(t, "shop")
	r := newRig(t, script.Steps(script.Call("mcp_shop_confirm", `{"text":"x","rounds":-1}`), script.Text("Enough.")),
		shop.host())
	r.work()
	a := r.say(session(t), workflows.Message{ID: "m1", Text: "Append it, if I may say so."})
	answered := map[string]bool{}
	require.Eventually(t, func() bool {
		list, _ := r.store.Requests(t.Context(), a.ID) // empty before the turn is in the journal
		for _, w := range list {
			if !answered[w.ID] && w.Decision == nil {
				err := r.people().Respond(t.Context(), client.RespondInput{Session: session(t), Turn: a.ID, Request: w.ID,
					Response: turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage(`{"sure":true}`)}})
				answered[w.ID] = err == nil
			}
		}
		rec, err := r.store.Turn(t.Context(), a.ID)
		return err == nil && rec.State.Terminal()
	}, within, 20*time.Millisecond, "the turn is asked for ever")
	assert.LessOrEqual(t, len(answered), 33)
	assert.Zero(t, shop.noted("effect", "x"))
	assert.Equal(t, "Enough.", r.ended(a.ID).Answer)
}
