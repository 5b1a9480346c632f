package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// offered returns the wire names of the tools of a request.
func offered(r fakellm.Request) (names []string) {
	for _, t := range r.Chat.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// TestAMessageNarrowsTheToolsOfItsTurn checks that the tools and the temperature of a message hold for its turn only. A
// tool that the message excludes does not run, even if the model calls it.
func TestAMessageNarrowsTheToolsOfItsTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`),
		fakellm.Call("local_quick_echo", `{"text":"b"}`), fakellm.Text("done")))
	e.work(withEcho()...)
	id := session(t)
	first := e.say(id, workflows.Message{Text: "Echo.", Tools: []string{"local/quick_*"}, ModelSettings: turn.ModelSettings{Temperature: ptr(0.5)}})
	res, err := e.people().Wait(t.Context(), first)
	require.NoError(t, err)
	assert.Equal(t, "done", res.Answer)
	want := turn.ErrorEvent{Code: turn.CodeInvalidAction, Invalid: turn.InvalidUnknownTool, Tool: "local_echo"}
	assert.Equal(t, []turn.ErrorEvent{want}, e.failures(first.ID))
	calls, err := e.journal.Calls(t.Context(), first.ID)
	require.NoError(t, err)
	ran := 0
	for _, c := range calls {
		if ran += c.Runs; c.Runs > 0 {
			assert.Equal(t, "local/quick_echo", c.Call.Tool)
		}
	}
	assert.Equal(t, 1, ran)
	requests := e.model.Requests()
	assert.Equal(t, []string{"local_quick_echo", turn.AskUserTool}, offered(requests[0]))
	assert.Equal(t, ptr(0.5), requests[0].Chat.Temperature)

	e.model.SetScript(fakellm.Text("later"))
	_, err = e.people().Wait(t.Context(), e.say(id, workflows.Message{Text: "And now?"}))
	require.NoError(t, err)
	requests = e.model.Requests()
	last := requests[len(requests)-1]
	assert.Contains(t, offered(last), "local_echo")
	assert.Nil(t, last.Chat.Temperature)
}

// TestAMessageCannotWidenThePolicy checks that a message gets no tool that policy denies, and that a misspelled tool is
// an error instead of a turn without tools.
func TestAMessageCannotWidenThePolicy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("done"), func(c *config.Config) { c.Policy.Deny = []string{"local/echo"} })
	e.work(withEcho()...)
	for _, pattern := range []string{"local/echo", "local/ehco"} {
		sent := e.say("refused "+pattern, workflows.Message{Text: "Echo.", Tools: []string{"local/quick_echo", pattern}})
		res, err := e.people().Wait(t.Context(), sent)
		require.NoError(t, err)
		assert.Equal(t, turn.CodeInputInvalid, res.Code, pattern)
	}
	assert.Empty(t, e.model.Requests())
	sent := e.say("none", workflows.Message{Text: "Say something.", Tools: []string{"none"}})
	res, err := e.people().Wait(t.Context(), sent)
	require.NoError(t, err)
	assert.Equal(t, "done", res.Answer)
	assert.Equal(t, []string{turn.AskUserTool}, offered(e.model.Requests()[0]))
	for _, m := range []workflows.Message{{Text: "x", Tools: []string{"["}}, {Text: "x", ModelSettings: turn.ModelSettings{Temperature: ptr(2.5)}}} {
		_, err := e.people().Send(t.Context(), client.SendInput{Message: m})
		assert.ErrorIs(t, err, client.ErrInvalid)
	}
}
