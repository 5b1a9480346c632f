package tests

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// older limits the ledger's server to the protocol versions in which a server holds its call open during an
// elicitation, for at most the time within.
func older(within time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		s := &c.MCP.Servers[0]
		s.Args, s.Timeouts.Elicitation = append(s.Args, "-old"), within
	}
}

// TestAHeldCallGetsItsResponse checks that the response to an elicitation in the middle of a call reaches the process
// with the open call, that a response which does not fit is elicited again, and that the time until the response counts
// against the time of neither the call nor the turn.
func TestAHeldCallGetsItsResponse(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Confirmed.")), l.host(config.MCPTool{}), older(within),
		func(c *config.Config) { c.Runtime.ToolTimeout, c.Runtime.TurnTimeout = 3*time.Second, 3*time.Second })
	e.process()
	e.process()
	begun := e.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	request := e.waits(begun.ID, 1)[0]
	assert.Equal(t, "e1.0.1", request.ID)
	assert.False(t, request.ExpiresAt.IsZero(), "the server holds its call open for timeouts.elicitation")
	require.NoError(t, e.reply(session(t), request, turn.ElicitationAccept, `{"sure":"maybe"}`))
	again := e.waits(begun.ID, 2)[1]
	time.Sleep(time.Until(request.AskedAt.Add(4 * time.Second))) // longer than a call and a turn may work
	require.NoError(t, e.reply(session(t), again, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", e.answered(session(t), "m1").Answer)
	assert.Equal(t, turn.OutcomeOK, e.calls(begun.ID, 1)[0].Outcome)
	assert.Equal(t, 1, e.calls(begun.ID, 1)[0].Runs)
	assert.Equal(t, 1, l.count("asked", "x"))
	assert.Equal(t, 1, l.count("effect", "x"))
	e.keep("v1-held", session(t), begun.ID)
}

// TestAnElicitationEndsWithItsCall checks that the elicitation of a call that its server holds open expires when the
// worker or the server dies: later responses are refused, and the call is unknown.
func TestAnElicitationEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(worker *process, server int){
		"worker": func(p *process, _ int) { p.kill() },
		"server": func(_ *process, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := holding(t, within)
			server := h.ledger.server()
			h.process()
			kill(h.worker, server)
			assert.Equal(t, "Given up.", h.answered(session(t), "m1").Answer)
			assert.Equal(t, turn.OutcomeUnknown, h.calls(h.turnID, 1)[0].Outcome)
			h.expired(turn.ReasonCallEnded)
			assert.Zero(t, h.ledger.count("effect", "x"))
			h.keep("v1-held-"+name+"-lost", session(t), h.turnID)
		})
	}
}

// TestAServerIsToldThatNobodyResponds checks that a server gets cancel when its elicitation expires or its worker
// stops, so that the call ends with a known outcome, and that later responses are refused.
func TestAServerIsToldThatNobodyResponds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		within time.Duration
		act    func(*heldCall)
		reason string
	}{
		"expired":          {2 * time.Second, func(*heldCall) {}, ""},
		"the worker stops": {within, func(h *heldCall) { h.worker.signal(syscall.SIGTERM) }, turn.ReasonCallEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := holding(t, c.within)
			h.process()
			c.act(h)
			assert.Equal(t, "Given up.", h.answered(session(t), "m1").Answer)
			call := h.calls(h.turnID, 1)[0]
			assert.Equal(t, turn.OutcomeOK, call.Outcome)
			assert.Contains(t, call.Text, "not appended x: cancel")
			h.expired(c.reason)
			assert.Zero(t, h.ledger.count("effect", "x"))
		})
	}
}

// TestAStopEndsAHeldCall checks that a turn can be stopped while a server holds its call open.
func TestAStopEndsAHeldCall(t *testing.T) {
	t.Parallel()
	h := holding(t, within)
	require.NoError(t, h.people().Stop(t.Context(), session(t)))
	assert.Equal(t, turn.StateCancelled, h.ended(h.turnID).State)
	assert.Equal(t, turn.OutcomeUnknown, h.calls(h.turnID, 1)[0].Outcome)
	require.Error(t, h.reply(session(t), h.request, turn.ElicitationAccept, `{"sure":true}`))
	assert.Zero(t, h.ledger.count("effect", "x"))
}

// heldCall is a turn with a call that its server holds open for the response to an elicitation.
type heldCall struct {
	*env
	ledger  *effectServer
	worker  *process
	turnID  string
	request turn.Request
}

// holding returns a held call whose server waits for at most the time within. It is the only call of its turn.
func holding(t *testing.T, within time.Duration) *heldCall {
	t.Helper()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Given up.")), l.host(config.MCPTool{}), older(within))
	worker := e.process()
	begun := e.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	return &heldCall{env: e, ledger: l, worker: worker, turnID: begun.ID, request: e.waits(begun.ID, 1)[0]}
}

// expired checks that the request has expired for this reason, and that a response is refused.
func (h *heldCall) expired(reason string) {
	h.t.Helper()
	requests, err := h.journal.Requests(h.t.Context(), h.turnID)
	require.NoError(h.t, err)
	require.Len(h.t, requests, 1)
	require.NotNil(h.t, requests[0].Decision)
	assert.Equal(h.t, turn.StatusExpired, requests[0].Decision.Status)
	assert.Equal(h.t, reason, requests[0].Decision.Reason)
	require.Error(h.t, h.reply(session(h.t), h.request, turn.ElicitationAccept, `{"sure":true}`))
}
