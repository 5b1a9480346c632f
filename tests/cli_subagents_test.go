package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// helperHome has a default agent that calls the agent helper, which asks before it lists files.
func helperHome(t *testing.T, call fakellm.ToolCall) *userFolder {
	t.Helper()
	m := fakellm.Start(t, fakellm.Cases(
		fakellm.When(isAnswer, fakellm.Text("It has answered.")),
		fakellm.When("Errand", fakellm.Steps(fakellm.Calls(call), fakellm.Text("All done."))),
		fakellm.When("task", fakellm.Steps(fakellm.Call("local_list_files", `{"path":"."}`), fakellm.Text("Listed.")))))
	h := newUserFolder(t, asking(m)+"agents = [\"helper\"]\n[[agents]]\nid = \"helper\"\ndescription = \"helps\"\n"+
		"[policy]\nask = [\"local/list_files\"]\n")
	h.worker()
	return h
}

// TestCLIShowsWhatASubagentWaitsFor lets an inline subagent wait for an approval. Each command that shows its caller
// says so, and the caller's command can decide it.
func TestCLIShowsWhatASubagentWaitsFor(t *testing.T) {
	t.Parallel()
	h := helperHome(t, callAgent("helper", "task"))
	c := h.everturn("run", "-s", "shows-errand", "--no-wait", "Errand").exits(6)
	assert.Contains(t, c.err.String(), "everturn approve agent/")
	list := decoded[[]journal.SessionRecord](h.everturn("list", "-o", "json").exits(0))
	states := map[bool]turn.State{}
	for _, s := range list {
		states[s.ID == "shows-errand"] = s.LastTurn.State
		assert.Equal(t, 1, s.PendingRequests, s.ID)
	}
	assert.Equal(t, map[bool]turn.State{true: turn.StateWaiting, false: turn.StateWaiting}, states)
	pending := decoded[[]turn.Request](h.everturn("approvals", "shows-errand", "-o", "json").exits(0))
	require.Len(t, pending, 1)
	assert.True(t, strings.HasPrefix(pending[0].Session, turn.AgentTools))
	shown := decoded[struct {
		SubagentRequests []turn.Request `json:"subagent_requests"`
	}](h.everturn("show", "shows-errand", "-o", "json").exits(0))
	assert.Equal(t, pending[0].Session, shown.SubagentRequests[0].Session)
	h.everturn("approve", "shows-errand", "-y").exits(3) // it is the subagent's
	h.everturn("attach", "shows-errand", "--no-wait").exits(6)

	c, keys := h.onTerminal("attach", "shows-errand")
	c.says("[y] allow")
	typeIn(t, keys, "y\n")
	c.exits(0).says("All done.")
	assert.Empty(t, decoded[[]turn.Request](h.everturn("approvals", "shows-errand", "-o", "json").exits(0)))
}

// TestCLIADialogAboutASubagentEndsWhenItIsDecidedElsewhere decides a subagent's request while its caller's terminal
// asks about it.
func TestCLIADialogAboutASubagentEndsWhenItIsDecidedElsewhere(t *testing.T) {
	t.Parallel()
	h := helperHome(t, callAgent("helper", "task"))
	c, _ := h.onTerminal("run", "-s", "dialog-errand", "Errand")
	c.says("[y] allow")
	pending := decoded[[]turn.Request](h.everturn("approvals", "dialog-errand", "-o", "json").exits(0))
	h.everturn("approve", pending[0].Session, "-y").exits(0)
	c.exits(0).says("All done.")
}

// TestCLIASubagentInTheBackgroundWaits lets a subagent in the background wait. Its caller's turn ends without it, and
// the session shows that something is pending until it is decided, or stopped.
func TestCLIASubagentInTheBackgroundWaits(t *testing.T) {
	t.Parallel()
	h := helperHome(t, inBackground("helper", "task"))
	h.everturn("run", "-s", "background-errand", "--no-wait", "Errand").exits(0)
	waiting := func() (list []turn.Request) {
		return decoded[[]turn.Request](h.everturn("approvals", "background-errand", "-o", "json").exits(0))
	}
	require.Eventually(t, func() bool { return len(waiting()) == 1 }, within, 50*time.Millisecond)
	assert.Contains(t, h.everturn("stop", "background-errand").exits(0).err.String(), "stopped")
	require.Eventually(t, func() bool { return len(waiting()) == 0 }, within, 50*time.Millisecond)
}

// TestChatDecidesForASubagent shows and decides what a subagent waits for in the chat of its caller.
func TestChatDecidesForASubagent(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]fakellm.ToolCall{
		"inline": callAgent("helper", "task"), "background": inBackground("helper", "task"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := helperHome(t, call).chat(80, 24, nil, "-s", "chat-errand-"+name)
			s.ready()
			s.says("Errand")
			s.shows("waits for you", "Allow local/list_files?")
			s.allows()
			if name == "background" {
				s.shows("It has answered.")
			}
			s.shows("All done.")
			s.ready()
		})
	}
}
