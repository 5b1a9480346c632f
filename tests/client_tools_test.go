package tests

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// weather is a client tool of a message.
var weather = turn.ClientTool{Name: "weather", Description: "Returns the weather.",
	Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}

func askWeather(city string) fakellm.Reply {
	return fakellm.Call("client_weather", `{"city":"`+city+`"}`)
}

// withWeather is a message that brings the tool.
func withWeather(text string) workflows.Message {
	return workflows.Message{Text: text, ClientTools: []turn.ClientTool{weather}}
}

// settle sends the result of a call.
func (e *env) settle(session, turnID, call, text string) (client.Settled, error) {
	return e.people().SettleCall(e.t.Context(), client.SettleInput{Session: session, Turn: turnID, Call: call, Text: text,
		By: "ann"})
}

// TestAClientRunsACall checks that a turn hands out a call with its whole arguments, waits without a worker, takes the
// first result, and accepts only the same one again, while it runs and afterwards.
func TestAClientRunsACall(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	city := strings.Repeat("Ulm ", turn.WaitArguments) // more than an event has
	e := newEnv(t, fakellm.Steps(askWeather(city), fakellm.Text("It rains.").Hold(1, gate)),
		func(c *config.Config) { c.Policy.Taint = turn.TaintOn })
	first := e.process()
	begun := e.say(t.Name(), withWeather("How is the weather?"))
	request := e.waits(begun.ID, 1)[0]
	assert.Equal(t, []any{"r1.0", turn.RequestResult, "client/weather", "1.0"},
		[]any{request.ID, request.Kind, request.Tool, request.Call})
	assert.JSONEq(t, `{"city":"`+city+`"}`, request.Arguments)
	state, err := e.journal.Turn(t.Context(), begun.ID)
	require.NoError(t, err)
	assert.Equal(t, turn.StateWaiting, state.State)
	first.kill()
	e.process()
	settled, err := e.settle(t.Name(), begun.ID, "1.0", "rain")
	require.NoError(t, err)
	assert.False(t, settled.Late)
	e.reach(gate) // the next inference has the result
	for range 2 {
		_, err = e.settle(t.Name(), begun.ID, "1.0", "rain")
		require.NoError(t, err, "the same result again")
		_, err = e.settle(t.Name(), begun.ID, "1.0", "sun")
		var decided *client.DecidedError
		require.ErrorAs(t, err, &decided)
		assert.Equal(t, "ann", decided.Decision.By)
		gate.Release()
		assert.Equal(t, "It rains.", e.ended(begun.ID).Answer)
	}
	call := e.calls(begun.ID, 1)[0]
	assert.Equal(t, []any{turn.OutcomeOK, "rain"}, []any{call.Outcome, call.Text})
	tainted, err := e.journal.Taint(t.Context(), begun.ID)
	require.NoError(t, err)
	require.NotNil(t, tainted)
	assert.Equal(t, "client/weather", tainted.Tool)
	_, err = e.settle(t.Name(), begun.ID, "9.0", "rain")
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = e.settle("another", begun.ID, "1.0", "rain")
	require.ErrorIs(t, err, client.ErrNotFound)
	e.keep("v3-client-call", t.Name(), begun.ID)
}

// TestCallsOfClientsAndServersRunTogether checks that the calls of a step do not wait for each other, and that a client
// may send an error, and a result that does not fit into a decision.
func TestCallsOfClientsAndServersRunTogether(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(askWeather("Ulm").And(askWeather("Bonn")).And(fakellm.Call("local_echo",
		`{"text":"here"}`)),
		fakellm.Text("Done.")))
	e.work(withEcho()...)
	begun := e.say(t.Name(), withWeather("How is the weather?"))
	e.waits(begun.ID, 2)
	require.Eventually(t, func() bool { return e.calls(begun.ID, 3)[2].Outcome == turn.OutcomeOK }, within,
		10*time.Millisecond)
	long := strings.Repeat("fog ", turn.MaxResponseBytes)
	_, err := e.settle(t.Name(), begun.ID, "1.1", long)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return e.calls(begun.ID, 3)[1].Outcome == turn.OutcomeOK }, within,
		10*time.Millisecond,
		"the other call does not hold it up")
	_, err = e.people().SettleCall(t.Context(), client.SettleInput{Session: t.Name(), Turn: begun.ID, Call: "1.0",
		Text: "no such city", Failed: true})
	require.NoError(t, err)
	assert.Equal(t, "Done.", e.ended(begun.ID).Answer)
	calls := e.calls(begun.ID, 3)
	assert.Equal(t, []any{turn.OutcomeError, "no such city"}, []any{calls[0].Outcome, calls[0].Text})
	_, whole, err := e.journal.Artifact(t.Context(), begun.ID, calls[1].FullBlob)
	require.NoError(t, err)
	assert.Equal(t, long, string(whole))
	assert.LessOrEqual(t, len(calls[1].Text), e.cfg.Runtime.MaxResultBytes)
	e.keep("v3-client-calls", t.Name(), begun.ID)
}

// TestAClientToolOfTheConfiguration checks a tool of agent.toml: that policy may ask about its calls, and that a call
// that is denied is not handed out.
func TestAClientToolOfTheConfiguration(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(fakellm.Call("client_deploy", `{}`), fakellm.Call("client_deploy", `{}`),
		fakellm.Text("Deployed.")),
		func(c *config.Config) {
			c.ClientTools = []config.ClientTool{{Name: "deploy", Description: "Deploys."}}
			c.Policy.Ask = []string{"client/deploy"}
		})
	e.work()
	begun := e.say(t.Name(), workflows.Message{Text: "Deploy."})
	request := e.waits(begun.ID, 1)[0]
	assert.Equal(t, turn.RequestApproval, request.Kind)
	_, err := e.people().Deny(t.Context(), client.DecideInput{Session: t.Name(), Request: request.ID})
	require.NoError(t, err)
	_, err = e.settle(t.Name(), begun.ID, "1.0", "done")
	require.ErrorIs(t, err, client.ErrNotFound, "it is not handed out")
	e.allow(t.Name(), e.waits(begun.ID, 2)[1], "")
	request = e.waits(begun.ID, 3)[2]
	assert.Equal(t, []any{turn.RequestResult, "r2.0"}, []any{request.Kind, request.ID})
	_, err = e.settle(t.Name(), begun.ID, "2.0", "done")
	require.NoError(t, err)
	assert.Equal(t, "Deployed.", e.ended(begun.ID).Answer)
	e.keep("v3-client-call-approved", t.Name(), begun.ID)
}

// TestALateResultIsANotice checks what becomes of a result for which a turn does not wait any more: the session's model
// gets the first one as a notice.
func TestALateResultIsANotice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		end    func(*env)
		state  turn.State
	}{
		"stopped": {func(*config.Config) {}, func(e *env) {
			require.NoError(e.t,
				e.people().Stop(e.t.Context(), session(e.t)))
		},
			turn.StateCancelled},
		"expired": {func(c *config.Config) { c.Approvals.Expiry = time.Second }, func(*env) {}, turn.StateCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("first", fakellm.Steps(askWeather("Ulm"), fakellm.Text("I do not know."))),
				fakellm.When("second", fakellm.Text("It rained.")),
			), c.change)
			e.work()
			begun := e.say(session(t), withWeather("the first"))
			e.waits(begun.ID, 1)
			c.end(e)
			assert.Equal(t, c.state, e.ended(begun.ID).State)
			assert.Equal(t, turn.OutcomeUnknown, e.calls(begun.ID, 1)[0].Outcome)
			for range 2 {
				settled, err := e.settle(session(t), begun.ID, "1.0", "rain")
				require.NoError(t, err)
				assert.True(t, settled.Late)
				_, err = e.settle(session(t), begun.ID, "1.0", "sun")
				require.ErrorIs(t, err, client.ErrAlreadyDecided)
			}
			assert.Equal(t, "It rained.", e.ended(e.say(session(t), workflows.Message{Text: "the second"}).ID).Answer)
			messages, _ := e.transcript(session(t))
			notices := 0
			for _, m := range messages {
				if m.Role == turn.RoleUser && strings.Contains(m.Text, "rain") {
					notices++
				}
			}
			assert.Equal(t, 1, notices)
			e.keep("v3-client-call-"+name, session(t), begun.ID)
		})
	}
}

// TestAResultCountsAlthoughTheTurnIsStopped stops a turn right after it has accepted a result, while nothing can be
// recorded: the client was told that the result counts.
func TestAResultCountsAlthoughTheTurnIsStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(askWeather("Ulm")))
	e.work()
	begun := e.say(t.Name(), withWeather("How is the weather?"))
	e.waits(begun.ID, 1)
	require.NoError(t, func() error {
		sent := make(chan error, 1)
		go func() {
			_, err := e.settle(t.Name(), begun.ID, "1.0", "rain")
			sent <- err
		}()
		return errors.Join(<-sent, e.people().Stop(t.Context(), t.Name()))
	}())
	e.ended(begun.ID)
	call := e.calls(begun.ID, 1)[0]
	assert.Equal(t, []any{turn.OutcomeOK, "rain"}, []any{call.Outcome, call.Text})
}

// TestATurnThatWaitsForAResultStaysReachable lets a turn that waits for a client continue in another run: see
// TestAWaitingTurnStaysReachable.
func TestATurnThatWaitsForAResultStaysReachable(t *testing.T) {
	t.Parallel()
	server := newRestartableTemporal(t, "", 60)
	e := newEnv(t, fakellm.Steps(askWeather("Ulm").And(fakellm.Call("local_echo", `{"text":"here"}`)),
		fakellm.Text("It rains.")))
	server.serves(e)
	e.work(withEcho()...)
	m := withWeather("How is the weather?")
	m.ID = "m1"
	begun := e.say(t.Name(), m)
	expires := e.waits(begun.ID, 1)[0].ExpiresAt
	for range 60 { // each is an update of its own
		h, err := e.client.UpdateWorkflow(t.Context(), sdk.UpdateWorkflowOptions{WorkflowID: t.Name(),
			UpdateName: workflows.SendUpdate, Args: []any{m}, WaitForStage: sdk.WorkflowUpdateStageCompleted})
		require.NoError(t, err)
		require.NoError(t, h.Get(t.Context(), nil))
	}
	d, err := e.client.DescribeWorkflowExecution(t.Context(), t.Name(), "")
	require.NoError(t, err)
	later := d.WorkflowExecutionInfo.GetExecution().GetRunId()
	assert.NotEqual(t, begun.ID, later, "the turn waits in a later run")
	_, err = e.settle(t.Name(), begun.ID, "1.0", "rain")
	require.NoError(t, err)
	assert.Equal(t, "It rains.", e.ended(begun.ID).Answer)
	list := e.waits(begun.ID, 1)
	require.Len(t, list, 1)
	assert.Equal(t, expires, list[0].ExpiresAt)
	for _, call := range e.calls(begun.ID, 2) {
		assert.Equal(t, turn.OutcomeOK, call.Outcome)
	}
	e.keep("v3-client-call-moved-first", t.Name(), begun.ID)
	e.keep("v3-client-call-moved-next", t.Name(), later)
}

// TestClientToolsThatATurnCannotHave checks the messages that are refused.
func TestClientToolsThatATurnCannotHave(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Never."), func(c *config.Config) { c.Policy.Allow = []string{"local/*"} })
	e.work()
	for name, tools := range map[string][]turn.ClientTool{
		"a name":  {{Name: "a b"}},
		"twice":   {weather, weather},
		"schema":  {{Name: "a", Schema: json.RawMessage(`{"type":"string"}`)}},
		"policy":  {weather},
		"a bound": {{Name: "a", Description: strings.Repeat("x", 100<<10)}},
	} {
		a, err := e.people().Send(t.Context(), client.SendInput{Session: session(t) + name,
			Message: workflows.Message{Text: "Hello.", ClientTools: tools}})
		if err == nil {
			res, waitErr := e.people().Wait(t.Context(), a)
			require.NoError(t, waitErr)
			assert.Equal(t, turn.CodeInputInvalid, res.Code, name)
			continue
		}
		require.ErrorIs(t, err, client.ErrInvalid, name)
	}
}

// TestAResultOverHTTP sends the tool, and the result of its call, over HTTP.
func TestAResultOverHTTP(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(askWeather("Ulm"), fakellm.Text("It rains.")))
	e.work()
	w := e.web()
	s := "/v1/sessions/" + session(t)
	var sent client.Turn
	require.Equal(t, http.StatusAccepted, w.call("POST", s+"/messages", map[string]any{"text": "How is the weather?",
		"client_tools": []any{map[string]any{"name": "weather", "schema": weather.Schema}}}, &sent))
	e.waits(sent.ID, 1)
	var open struct{ Requests []turn.Request }
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/requests", nil, &open))
	require.Len(t, open.Requests, 1)
	result := s + "/turns/" + sent.ID + "/calls/" + open.Requests[0].Call + "/result"
	require.Equal(t, http.StatusBadRequest, w.call("POST", s+"/turns/"+sent.ID+"/requests/"+open.Requests[0].ID,
		map[string]any{
			"response": map[string]any{"action": "accept", "content": map[string]any{"blob": "any blob of the journal"}}}, nil))
	require.Equal(t, http.StatusOK, w.call("POST", result, map[string]any{"text": "rain"}, nil))
	require.Equal(t, http.StatusConflict, w.call("POST", result, map[string]any{"text": "sun"}, nil))
	require.Equal(t, http.StatusOK, w.call("GET", s+"/turns/"+sent.ID+"?wait=60", nil, nil))
	assert.Equal(t, "It rains.", e.ended(sent.ID).Answer)
	decided := e.waits(sent.ID, 1)[0].Decision
	assert.Equal(t, "ann", decided.By)
}
