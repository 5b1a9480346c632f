package tests

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file run servers that change or misrepresent themselves. No call reaches such a server without the
// operator's approval.

// TestATurnDoesNotCallAToolThatHasChanged checks that a turn does not call a tool that differs from the one in its turn
// config: neither if the server reports the change, nor if the server was replaced and reports nothing.
func TestATurnDoesNotCallAToolThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		args []string
		make func(*env, *untrustedServer)
	}{
		"reported": {nil, func(e *env, s *untrustedServer) {
			s.turn("description")
			e.held("shop")
		}},
		"silent": {[]string{"-mute"}, func(_ *env, s *untrustedServer) {
			s.wear("annotations")
			gone(s.t, s.signal(syscall.SIGKILL))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			shop := newUntrustedServer(t, "shop")
			e := newEnv(t, fakellm.Steps(fakellm.Call("mcp_shop_append", `{"text":"x"}`).Hold(0, gate), fakellm.Text("Done.")),
				shop.host(change.args...))
			e.work()
			run := e.begin(session(t), "Append it.", nil)
			e.reach(gate)
			change.make(e, shop)
			gate.Release()
			res := e.result(run)
			assert.Equal(t, "Done.", res.Answer, "the model gets an error result and answers")
			assert.Zero(t, shop.noted("begun", "x"), "the changed tool was called")
			assert.Equal(t, turn.OutcomeError, e.calls(res.Turn, 1)[0].Outcome)
			if name == "silent" {
				e.keep("v1-call-drift", session(t), run.GetRunID())
			}
		})
	}
}
