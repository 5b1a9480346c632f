package mcp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// health returns the health of the host's only server.
func health(t *testing.T, h *mcp.Host) turn.ServerHealth {
	t.Helper()
	all := h.Health()
	require.Len(t, all, 1)
	return all[0]
}

func awaitState(t *testing.T, h *mcp.Host, s turn.ServerState) {
	t.Helper()
	require.Eventually(t, func() bool { return health(t, h).State == s }, 10*time.Second, 2*time.Millisecond,
		"it is never %s", s)
}

func TestAConnectionThatNobodyUsesEndsAndComesBackWithTheNextCall(t *testing.T) {
	s := stdioServer("srv")
	s.IdleTimeout = 100 * time.Millisecond
	h := newHost(t, mcp.Options{RefreshEvery: 20 * time.Millisecond}, s)
	reports := make(chan turn.Catalogue, 10)
	go h.Watch(t.Context(), func(c turn.Catalogue) { reports <- c })
	published := receive(t, reports)
	require.Empty(t, published.Problem)
	awaitState(t, h, turn.ServerIdle)
	require.Eventually(t, func() bool { return len(children(t)) == 0 }, 10*time.Second, 2*time.Millisecond)
	select {
	case <-time.After(300 * time.Millisecond): // longer than the watcher's pauses
	case c := <-reports:
		assert.Fail(t, "its rest was reported", "%+v", c)
	}
	assert.Empty(t, children(t), "it was started only to be watched")

	d := published.Tools[0]
	require.Equal(t, "mcp/srv/append", d.ID)
	req := turn.ToolRequest{Tool: "mcp/srv/echo", Hash: hashOf(t, published, "mcp/srv/echo"),
		Arguments: []byte(`{"text":"back"}`), Timeout: 10 * time.Second}
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "back", r.Text)
	assert.Zero(t, health(t, h).Restarts, "a rest counts as a loss")
}

func hashOf(t *testing.T, c turn.Catalogue, id string) string {
	t.Helper()
	for _, d := range c.Tools {
		if d.ID == id {
			return d.Hash
		}
	}
	t.Fatalf("no tool %s", id)
	return ""
}

func TestCallsWaitForTheirTurnWithinTheirDeadline(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	s := stdioServer("srv", "-ledger", ledger)
	s.MaxConcurrent = 1
	h := newHost(t, mcp.Options{}, s)
	late := request(t, h, "mcp/srv/echo", `{"text":"x"}`)
	patient := late
	late.Timeout = 50 * time.Millisecond
	first, cancel := async(t, h, request(t, h, "mcp/srv/slow", `{"text":"x"}`))
	awaitEvent(t, ledger, "begun")

	_, err := h.Call(t.Context(), late)
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
	assert.ErrorContains(t, err, "max_concurrent_calls")
	second, stop := async(t, h, patient)
	defer stop()
	cancel()
	assert.Equal(t, turn.OutcomeUnknown, receive(t, first).result.Outcome)
	assert.Equal(t, "x", receive(t, second).result.Text, "its turn never came")
}

func TestHealthTellsWhatHappenedAndNoSecret(t *testing.T) {
	s := stdioServer("srv", "-mode", "exit")
	s.EnvAllow = []string{"SECRET"}
	h := newHost(t, mcp.Options{}, s)
	assert.Equal(t, turn.ServerIdle, health(t, h).State)
	problem := h.Catalogues(t.Context())[0].Problem
	assert.Contains(t, problem, "no licence found in [redacted]")
	assert.NotContains(t, problem, "\x1b")
	got := health(t, h)
	assert.Equal(t, turn.ServerFailing, got.State)
	assert.Contains(t, got.LastError, "exit status 3")
	assert.Contains(t, got.Stderr, "no licence found")
	assert.NotContains(t, fmt.Sprintf("%+v", got), "hush")

	well := newHost(t, mcp.Options{}, stdioServer("srv"))
	call(t, well, "mcp/srv/echo", `{"text":"x"}`)
	call(t, well, "mcp/srv/crash", `{"text":"x"}`)
	require.Eventually(t, func() bool { return health(t, well).Restarts == 1 }, 10*time.Second, 2*time.Millisecond)
	got = health(t, well)
	assert.EqualValues(t, 2, got.Calls)
	assert.EqualValues(t, 1, got.Failures)
	assert.Contains(t, got.Stderr, "crashing: x")
}

// turnRequest returns a turn's call to the counting tool of a stateful server.
func turnRequest(t *testing.T, h *mcp.Host, turnID string, resume bool) turn.ToolRequest {
	t.Helper()
	req := request(t, h, "mcp/srv/remember", `{"text":"x"}`)
	req.Turn, req.Resume = turnID, resume
	if resume {
		req.OwningCall = req.CallID // all calls of a turn have the same owning call
	}
	return req
}

func stateful(args ...string) mcp.Server {
	s := stdioServer("srv", args...)
	s.SessionAffinity = true
	return s
}

func TestEachTurnHasAStatefulServerToItself(t *testing.T) {
	h := newHost(t, mcp.Options{}, stateful())
	for i := range 3 {
		for _, id := range []string{"one", "two"} {
			r, err := h.Call(t.Context(), turnRequest(t, h, id, i > 0))
			require.NoError(t, err)
			assert.Contains(t, r.Text, fmt.Sprint(i+1), "turn %s is at another's server", id)
		}
	}
	assert.Len(t, children(t), 3, "two turns, and who lists the tools")
	for _, d := range catalogue(t, h, "srv").Tools {
		assert.True(t, d.SessionAffinity)
	}
}

func TestLostStateIsSaidBeforeAnythingIsSent(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, mcp.Options{}, stateful("-pidfile", pidfile))
	_, err := h.Call(t.Context(), turnRequest(t, h, "new", true))
	assert.Equal(t, turn.CodeToolStateLost, turn.CodeOf(err), "a turn that was never here")

	first := turnRequest(t, h, "one", false)
	_, err = h.Call(t.Context(), first)
	require.NoError(t, err)
	pid := readPIDs(t, pidfile)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 2*time.Millisecond)
	resumed := turnRequest(t, h, "one", true)
	require.Eventually(t, func() bool {
		_, err := h.Call(t.Context(), resumed)
		return turn.CodeOf(err) == turn.CodeToolStateLost
	}, 10*time.Second, 2*time.Millisecond)
	_, err = h.Call(t.Context(), resumed)
	assert.Equal(t, turn.CodeToolStateLost, turn.CodeOf(err), "the state came back")
	assert.ErrorContains(t, err, "server state lost")

	r, err := h.Call(t.Context(), first)
	require.NoError(t, err, "a turn may begin again")
	assert.Contains(t, r.Text, "1")
}

// TestALateCallDoesNotFindItselfInAnotherState checks that a call that was attempted before the turn lost its server's
// state fails, even if the turn has created a new state since.
func TestALateCallDoesNotFindItselfInAnotherState(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, mcp.Options{}, stateful("-pidfile", pidfile))
	made := func(call, founder string) (turn.ToolResult, error) {
		req := turnRequest(t, h, "one", founder != "")
		req.CallID, req.OwningCall = call, founder
		return h.Call(t.Context(), req)
	}
	_, err := made("1.0", "")
	require.NoError(t, err)
	r, err := made("1.1", "1.0")
	require.NoError(t, err)
	assert.Contains(t, r.Text, "2")
	require.NoError(t, syscall.Kill(readPIDs(t, pidfile)[0], syscall.SIGKILL))
	require.Eventually(t, func() bool {
		_, err := made("2.0", "1.0")
		return turn.CodeOf(err) == turn.CodeToolStateLost
	}, 10*time.Second, 2*time.Millisecond)
	_, err = made("2.1", "")
	require.NoError(t, err, "the turn begins again")

	_, err = made("2.2", "1.0")
	assert.Equal(t, turn.CodeToolStateLost, turn.CodeOf(err))
	r, err = made("2.3", "2.1")
	require.NoError(t, err)
	assert.Contains(t, r.Text, "2", "the late call was made")
}

// TestASilentChangeIsSeenWithTheNextRefresh covers servers that do not announce that their tools changed.
func TestASilentChangeIsSeenWithTheNextRefresh(t *testing.T) {
	dir := t.TempDir()
	face, pidfile := filepath.Join(dir, "face"), filepath.Join(dir, "pid")
	h := newHost(t, mcp.Options{RefreshEvery: 20 * time.Millisecond},
		stdioServer("srv", "-mute", "-face", face, "-pidfile", pidfile))
	reports := make(chan turn.Catalogue, 10)
	go h.Watch(t.Context(), func(c turn.Catalogue) { reports <- c })
	first := receive(t, reports)
	require.Empty(t, first.Problem)
	require.NoError(t, os.WriteFile(face, []byte("description"), 0o600))
	pid := readPIDs(t, pidfile)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))
	second := receive(t, reports)
	assert.Empty(t, second.Problem)
	assert.NotEqual(t, hashOf(t, first, "mcp/srv/append"), hashOf(t, second, "mcp/srv/append"))
	assert.Equal(t, pid, readPIDs(t, pidfile)[0], "it was started anew to be asked")
}

// TestCallsOfAServerThatHangsLeaveRoom checks that calls that wait for a hanging server never take all of the worker's
// slots.
func TestCallsOfAServerThatHangsLeaveRoom(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	h := newHost(t, mcp.Options{MaxCalls: 3}, stdioServer("hangs", "-ledger", ledger), stdioServer("well"))
	well := request(t, h, "mcp/well/echo", `{"text":"x"}`)
	slow := request(t, h, "mcp/hangs/slow", `{"text":"x"}`)
	slow.Waits, well.Waits = true, true
	for i := range 2 { // two thirds of the host's slots
		slow.CallID = fmt.Sprint("1.", i)
		_, cancel := async(t, h, slow)
		defer cancel()
		require.Eventually(t, func() bool { return events(ledger)["begun"] > i }, 10*time.Second, 5*time.Millisecond)
	}
	slow.CallID = "1.2"
	_, err := h.Call(t.Context(), slow)
	var e *turn.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, turn.CodeToolNotSent, e.Code)
	assert.Positive(t, e.RetryAfter)
	r, err := h.Call(t.Context(), well)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
}

// TestAServerThatHangsIsNotWaitedFor checks that a worker starts although a known server does not finish its handshake.
func TestAServerThatHangsIsNotWaitedFor(t *testing.T) {
	hangs := mcp.Server{ID: "hangs", Transport: mcp.TransportStdio, Command: "sleep", Args: []string{"600"},
		ConnectTimeout: 10 * time.Minute}
	h := newHost(t, mcp.Options{}, hangs, stdioServer("well"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := h.CataloguesSoon(ctx, func(server string) bool { return server == "hangs" })
	require.NoError(t, ctx.Err())
	assert.NotEmpty(t, got[0].Problem)
	assert.Empty(t, got[1].Problem)
	assert.NotEmpty(t, got[1].Tools)
}
