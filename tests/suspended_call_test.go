package tests

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// older limits the ledger's server to the protocol versions in which a server keeps its call open during an
// elicitation.
func older(c *config.Config) {
	s := &c.MCP.Servers[0]
	s.Args, s.Timeouts.Elicitation = append(s.Args, "-old"), within
}

// TestASuspendedCallContinuesOnItsWorker checks that the response to an elicitation in the middle of a call reaches the
// process that keeps the call open, although another worker polls the same task queue.
func TestASuspendedCallContinuesOnItsWorker(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Confirmed.")), l.host(config.MCPTool{}), older)
	e.process()
	e.process()
	begun := e.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	request := e.waits(begun.ID, 1)[0]
	assert.Equal(t, "e1.0.1", request.ID)
	assert.False(t, request.ExpiresAt.IsZero(), "the server keeps its call open for timeouts.elicitation")
	require.NoError(t, e.reply(session(t), request, turn.ElicitationAccept, `{"sure":"maybe"}`))
	again := e.waits(begun.ID, 2)[1]
	require.NoError(t, e.reply(session(t), again, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", e.answered(session(t), "m1").Answer)
	assert.Equal(t, turn.OutcomeOK, e.calls(begun.ID, 1)[0].Outcome)
	assert.Equal(t, 1, l.count("asked", "x"), "the call did not begin again")
	assert.Equal(t, 1, l.count("effect", "x"))
}

// TestAnElicitationEndsWithItsCall checks that the elicitation of a call that its server keeps open expires when the
// worker or the server dies: later responses are refused, and the call is unknown.
func TestAnElicitationEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(worker *process, server int){
		"worker": func(p *process, _ int) { p.kill() },
		"server": func(_ *process, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newEffectServer(t)
			e := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Given up.")), l.host(config.MCPTool{}), older)
			first := e.process()
			begun := e.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
			request := e.waits(begun.ID, 1)[0]
			server := l.server()
			e.process()
			kill(first, server)
			assert.Equal(t, "Given up.", e.answered(session(t), "m1").Answer)
			assert.Equal(t, turn.OutcomeUnknown, e.calls(begun.ID, 1)[0].Outcome)
			requests, err := e.journal.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			require.Len(t, requests, 1)
			require.NotNil(t, requests[0].Decision)
			assert.Equal(t, turn.StatusExpired, requests[0].Decision.Status)
			assert.Equal(t, turn.ReasonCallEnded, requests[0].Decision.Reason)
			require.Error(t, e.reply(session(t), request, turn.ElicitationAccept, `{"sure":true}`))
			assert.Zero(t, l.count("effect", "x"))
		})
	}
}
