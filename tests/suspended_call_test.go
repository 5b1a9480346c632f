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
	r := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Confirmed.")), l.host(config.MCPTool{}), older)
	r.process()
	r.process()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	request := r.waits(begun.ID, 1)[0]
	assert.Equal(t, "e1.0.1", request.ID)
	assert.False(t, request.ExpiresAt.IsZero(), "the server keeps its call open for timeouts.elicitation")
	require.NoError(t, r.reply(session(t), request, turn.ElicitationAccept, `{"sure":"maybe"}`))
	again := r.waits(begun.ID, 2)[1]
	require.NoError(t, r.reply(session(t), again, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", r.answered(session(t), "m1").Answer)
	assert.Equal(t, turn.OutcomeOK, r.calls(begun.ID, 1)[0].Outcome)
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
			r := newEnv(t, fakellm.Steps(confirm("x"), fakellm.Text("Given up.")), l.host(config.MCPTool{}), older)
			first := r.process()
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
			request := r.waits(begun.ID, 1)[0]
			server := l.server()
			r.process()
			kill(first, server)
			assert.Equal(t, "Given up.", r.answered(session(t), "m1").Answer)
			assert.Equal(t, turn.OutcomeUnknown, r.calls(begun.ID, 1)[0].Outcome)
			requests, err := r.store.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			require.Len(t, requests, 1)
			require.NotNil(t, requests[0].Decision)
			assert.Equal(t, turn.StatusExpired, requests[0].Decision.Status)
			assert.Equal(t, turn.ReasonCallEnded, requests[0].Decision.Reason)
			require.Error(t, r.reply(session(t), request, turn.ElicitationAccept, `{"sure":true}`))
			assert.Zero(t, l.count("effect", "x"))
		})
	}
}
