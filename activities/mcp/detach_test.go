package mcp_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

// detaching returns a server whose tool "steps" may continue after its call was detached.
func detaching(t *testing.T, server mcp.Server) mcp.Server {
	t.Helper()
	server.Tools = map[string]tool.Settings{"steps": {BackgroundTimeout: 30 * time.Second}}
	return server
}

func TestACallOverItsTimeGoesOnByItselfAndTellsItsEnd(t *testing.T) {
	for name, server := range map[string]mcp.Server{"stdio": detaching(t, stdioActor(t, "act")),
		"http": detaching(t, httpActor(t, "act"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.IdleTimeout = 50 * time.Millisecond // the call keeps its connection open
			h := newHost(t, mcp.Options{}, server)
			req := request(t, h, "mcp/act/steps", `{"N":30,"Each":100,"Silent":true}`)
			late := make(chan turn.ToolResult, 2)
			req.Timeout, req.Late = 100*time.Millisecond, func(r turn.ToolResult) { late <- r }
			r, err := h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Empty(t, late, "the model is told at once")
			assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
			assert.Contains(t, r.Text, "continues in the background")
			assert.True(t, r.Detached)
			end := receive(t, late)
			assert.Equal(t, turn.OutcomeOK, end.Outcome)
			assert.Equal(t, "took 30 steps", end.Text)
			assert.Empty(t, late, "once")
		})
	}
}

func TestWhatGoesOnEndsWithItsTimeItsServerOrTheHost(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	server := stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile)
	server.Tools = map[string]tool.Settings{"stubborn": {BackgroundTimeout: 400 * time.Millisecond},
		"slow": {BackgroundTimeout: time.Minute}}
	h := newHost(t, mcp.Options{}, server)
	late := make(chan turn.ToolResult, 3)
	start := func(tool string) {
		req := request(t, h, "mcp/srv/"+tool, `{"text":"x"}`)
		req.Timeout, req.Late = 50*time.Millisecond, func(r turn.ToolResult) { late <- r }
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	}

	start("stubborn")
	pid := readPIDs(t, pidfile)[0]
	assert.True(t, alive(pid), "it may go on")
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond, "it goes on for ever")

	start("slow")
	require.NoError(t, syscall.Kill(readPIDs(t, pidfile)[0], syscall.SIGKILL))
	echo := request(t, h, "mcp/srv/echo", `{"text":"next"}`)
	require.Eventually(t, func() bool {
		r, err := h.Call(t.Context(), echo)
		return err == nil && r.Text == "next"
	}, 10*time.Second, 5*time.Millisecond, "its end is not waited for")

	start("slow")
	require.NoError(t, h.Close())
	assert.Empty(t, late, "that there is no end to tell was said before")
}

// TestWhatDoesNotGoOnCountsAsAFailure checks that a call of a tool that may continue in the background counts as
// failed if it cannot continue: no caller takes its late result, or its connection is lost.
func TestWhatDoesNotGoOnCountsAsAFailure(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	server := stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile)
	server.Tools = map[string]tool.Settings{"slow": {BackgroundTimeout: time.Minute}}
	h := newHost(t, mcp.Options{}, server)
	req := request(t, h, "mcp/srv/slow", `{"text":"x"}`)
	req.Late = func(turn.ToolResult) { t.Error("it has no late result") }
	ch, _ := async(t, h, req)
	awaitEvent(t, ledger, "begun")
	require.NoError(t, syscall.Kill(readPIDs(t, pidfile)[0], syscall.SIGKILL))
	assert.Equal(t, turn.OutcomeUnknown, receive(t, ch).result.Outcome)
	assert.EqualValues(t, 1, h.Health()[0].Failures)

	req.Late, req.Timeout = nil, 50*time.Millisecond
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.EqualValues(t, 2, h.Health()[0].Failures)
}

func TestACancelledCallDoesNotGoOn(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	server := stdioServer("srv", "-ledger", ledger)
	server.Tools = map[string]tool.Settings{"slow": {BackgroundTimeout: time.Minute}}
	h := newHost(t, mcp.Options{}, server)
	req := request(t, h, "mcp/srv/slow", `{"text":"x"}`)
	req.Late = func(turn.ToolResult) { t.Error("nobody waits for its end") }
	ch, cancel := async(t, h, req)
	awaitEvent(t, ledger, "begun")
	cancel()
	r := receive(t, ch).result
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.False(t, r.Detached)
	awaitEvent(t, ledger, "cancelled")
}

func TestAQuestionThatComesLateEndsTheCall(t *testing.T) {
	server := httpActor(t, "act")
	server.Tools = map[string]tool.Settings{"question": {BackgroundTimeout: 30 * time.Second}}
	h := newHost(t, mcp.Options{}, server)
	req := request(t, h, "mcp/act/question", `{"Rounds":1,"Wait":600,"Ask":{"a":{"message":"A?"}}}`)
	late := make(chan turn.ToolResult, 1)
	req.Timeout, req.Late = 100*time.Millisecond, func(r turn.ToolResult) { late <- r }
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, turn.OutcomeUnknown, r.Outcome)
	end := receive(t, late)
	assert.Equal(t, turn.OutcomeError, end.Outcome)
	assert.Contains(t, end.Text, "after its timeout")
	assert.Empty(t, end.Elicitations)
}
