package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// older limits the ledger's server to the protocol versions in which a server keeps its call open during an
// elicitation.
func older(c *config.Config) {
	s := &c.MCP.Servers[0]
	s.Args, s.ElicitationTimeout = append(s.Args, "-old"), within
}

// dying builds, once, the worker that kills itself at a point named by a flag.
var dying = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-C", "faults", "-o", filepath.Join(binaries.dir, "dying"),
		"./worker").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the worker: %w\n%s", err, out)
	}
	return err
})

// dies starts a worker that is killed at a method of the journal: METHOD:before|after:N.
func (r *rig) dies(at string) *process {
	r.t.Helper()
	beside := binary(r.t, "./worker")
	require.NoError(r.t, dying())
	return r.run(exec.Command(filepath.Join(filepath.Dir(beside), "dying"),
		"-config", configFile(r.t, r.cfg), "-kill", at, "-points", filepath.Join(r.dir, "points")))
}

// replied returns how many responses of a kind the server has recorded.
func (l *ledger) replied(event, text, reply string) int {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	return bytes.Count(b, fmt.Appendf(nil, "{\"event\":%q,\"text\":%q,\"reply\":%q}\n", event, text, reply))
}

// TestASuspendedCallContinuesOnItsWorker checks that the response to an elicitation in the middle of a call reaches the
// process that keeps the call open, although another worker polls the same task queue.
func TestASuspendedCallContinuesOnItsWorker(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	r := newRig(t, script.Steps(confirm("x"), script.Text("Confirmed.")), l.host(config.MCPTool{}), older)
	r.process()
	r.process()
	begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Confirm it."})
	request := r.waits(begun.ID, 1)[0]
	assert.Equal(t, "e1.0.1", request.ID)
	assert.False(t, request.ExpiresAt.IsZero(), "the server keeps its call open for elicitation_timeout")
	require.NoError(t, r.reply(session(t), request, turn.ElicitationAccept, `{"sure":"maybe"}`))
	again := r.waits(begun.ID, 2)[1]
	require.NoError(t, r.reply(session(t), again, turn.ElicitationAccept, `{"sure":true}`))
	assert.Equal(t, "Confirmed.", r.answered(session(t), "m1").Answer)
	assert.Equal(t, turn.OutcomeOK, r.calls(begun.ID, 1)[0].Outcome)
	assert.Equal(t, 1, l.count("asked", "x"), "the call did not begin again")
	assert.Equal(t, 1, l.count("effect", "x"))
	r.sound(session(t))
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
			l := newLedger(t)
			r := newRig(t, script.Steps(confirm("x"), script.Text("Given up.")), l.host(config.MCPTool{}), older)
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
			r.sound(session(t))
		})
	}
}

// TestSamplingIsRefused checks that a server that requests sampling is told that Everturn does not support it, and that
// its call continues without it.
func TestSamplingIsRefused(t *testing.T) {
	t.Parallel()
	for name, protocol := range map[string]func(*config.Config){"newest": func(*config.Config) {}, "older": older} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			steps := script.Steps(script.Call("mcp_ledger_summarise", `{"text":"x"}`), script.Text("No summary."))
			r := newRig(t, steps, l.host(config.MCPTool{}), protocol, func(c *config.Config) {
				c.MCP.Servers[0].Tools["summarise"] = config.MCPTool{Risk: turn.RiskLow}
			})
			r.work()
			begun := r.say(session(t), workflows.Message{ID: "m1", Text: "Summarise it."})
			assert.Equal(t, "No summary.", r.answered(session(t), "m1").Answer)
			text := r.calls(begun.ID, 1)[0].Text
			assert.Contains(t, text, "Everturn does not support sampling")
			assert.Contains(t, text, "SEP-2577")
			assert.Len(t, r.model.Requests(), 2, "the model was asked for the turn's own steps only")
			requests, err := r.store.Requests(t.Context(), begun.ID)
			require.NoError(t, err)
			assert.Empty(t, requests)
			r.sound(session(t))
		})
	}
}
