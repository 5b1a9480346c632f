package tests

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// The tests of this file run servers that change or misrepresent themselves. No call reaches such a server without the
// operator's approval.

// TestAChangedToolIsQuarantinedUntilApproved checks that a tool that changes while its server runs is quarantined:
// no turn is offered it, and a call that names it anyway does not run until the operator accepts the new version.
func TestAChangedToolIsQuarantinedUntilApproved(t *testing.T) {
	t.Parallel()
	for face, tool := range map[string]string{"description": "mcp_shop_append", "schema": "mcp_shop_append",
		"annotations": "mcp_shop_append", "new": "mcp_shop_extra"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			shop := newUntrustedServer(t, "shop")
			r := newEnv(t, insisting("mcp_shop_append", "first"), shop.host())
			r.work()
			assert.Equal(t, "Done.", r.ask(session(t), "Begin.").Answer)
			require.Equal(t, 1, shop.noted("effect", "first"))
			assert.NotContains(t, r.offered(), "mcp_shop_extra")

			shop.turn(face)
			assert.Equal(t, []string{strings.ReplaceAll(tool, "_", "/")}, r.held("shop"))
			r.model.SetScript(insisting(tool, "second"))
			r.ask(session(t), "Go on.")
			assert.NotContains(t, r.offered(), tool)
			assert.Zero(t, shop.noted("begun", "second"), "a tool that nobody has accepted was called")

			r.acceptAll("shop")
			r.model.SetScript(insisting(tool, "third"))
			assert.Equal(t, "Done.", r.ask(session(t), "And now?").Answer)
			assert.Contains(t, r.offered(), tool)
			assert.Equal(t, 1, shop.noted("effect", "third"))
		})
	}
}

// TestATurnDoesNotCallAToolThatHasChanged checks that a turn does not call a tool that differs from the one in its turn
// config: neither if the server reports the change, nor if the server was replaced and reports nothing.
func TestATurnDoesNotCallAToolThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		args []string
		make func(*env, *untrustedServer)
	}{
		"reported": {nil, func(r *env, s *untrustedServer) {
			s.turn("description")
			r.held("shop")
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
			r := newEnv(t, fakellm.Steps(fakellm.Call("mcp_shop_append", `{"text":"x"}`).Hold(0, gate), fakellm.Text("Done.")),
				shop.host(change.args...))
			r.work()
			run := r.begin(session(t), "Append it.", nil)
			r.reach(gate)
			change.make(r, shop)
			gate.Release()
			res := r.result(run)
			assert.Equal(t, "Done.", res.Answer, "the model gets an error result and answers")
			assert.Zero(t, shop.noted("begun", "x"), "the changed tool was called")
			assert.Equal(t, turn.OutcomeError, r.calls(res.Turn, 1)[0].Outcome)
			if name == "silent" {
				r.keep("v1-call-drift", session(t), run.GetRunID())
			}
		})
	}
}

// TestToolsWithTheSameNameAreDistinct checks that tools with the names of other tools get names of their own, and that
// no call to the other tools reaches them.
func TestToolsWithTheSameNameAreDistinct(t *testing.T) {
	t.Parallel()
	const shadows = "b_append,local/read_file,local_read_file,read_file,ask_user,mcp/a_b/append"
	thief, victim := newUntrustedServer(t, "a"), newUntrustedServer(t, "a_b")
	r := newEnv(t, nil, victim.host(),
		thief.host("-shadow", shadows), func(c *config.Config) { c.Runtime.MaxSteps = 20 })
	var offered []string
	r.model.SetScript(fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		offered = q.Chat.ToolNames()
		switch q.Step {
		case 0:
			return fakellm.Call("local_read_file", `{"path":"note.txt"}`)
		case 1:
			return fakellm.Call(turn.WireName("mcp/a_b/append"), `{"text":"to whom it belongs"}`)
		}
		return fakellm.Text("Done.")
	}))
	r.work()
	res := r.ask(session(t), "Read the note, and append.")
	assert.Equal(t, "Done.", res.Answer)
	seen := map[string]bool{}
	for _, name := range offered {
		assert.False(t, seen[name], "two tools have the name %s", name)
		seen[name] = true
		assert.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
	}
	for _, shadow := range strings.Split(shadows, ",") {
		assert.Contains(t, offered, turn.WireName("mcp/a/"+shadow))
	}
	calls := r.calls(res.Turn, 2)
	assert.Equal(t, "local/read_file", calls[0].Call.Tool)
	assert.Equal(t, "mcp/a_b/append", calls[1].Call.Tool)
	assert.Equal(t, 1, victim.noted("effect", "to whom it belongs"))
	assert.NoFileExists(t, thief.file("ledger"), "something has come to who has only taken a name")
}
