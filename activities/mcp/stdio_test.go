package mcp_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

func TestCallReachesARealServer(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	r := call(t, h, "mcp/srv/echo", `{"text":"hello"}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.Equal(t, "hello", r.Text)
	assert.EqualValues(t, 5, r.SizeBytes)
	assert.Positive(t, r.Duration)

	r = call(t, h, "mcp/srv/fail", `{"text":"no such thing"}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Equal(t, "no such thing", r.Text)
}

func TestTheChildGetsOnlyItsEnvironment(t *testing.T) {
	s := stdioServer("srv")
	s.Env = map[string]string{"GIVEN": "yes"}
	s.EnvAllow = []string{"SECRET"}
	h := newHost(t, mcp.Options{}, s)
	env := strings.Split(call(t, h, "mcp/srv/environ", `{}`).Text, "\n")
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "EVERTURN_CHILD_OF=") })
	assert.ElementsMatch(t, []string{"GIVEN=yes", "HOME=/nowhere", "PATH=" + os.Getenv("PATH"), "SECRET=[redacted]"}, env)
}

func TestACrashIsUnknownAndTheNextCallGetsANewProcess(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	r := call(t, h, "mcp/srv/crash", `{"text":"x"}`)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "may or may not have taken effect")

	req := request(t, h, "mcp/srv/crash", `{"text":"x"}`)
	req.Repeatable = true
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "may be called again")

	assert.Equal(t, "back", call(t, h, "mcp/srv/echo", `{"text":"back"}`).Text)
}

func TestKillAfterTheEffectIsUnknownAndOnceOnly(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile, "-block", "after"))
	ch, cancel := async(t, h, request(t, h, "mcp/srv/append", `{"text":"x"}`))
	defer cancel()
	awaitEvent(t, ledger, "effect")
	require.NoError(t, syscall.Kill(readPIDs(t, pidfile)[0], syscall.SIGKILL))
	e := receive(t, ch)
	require.NoError(t, e.err)
	assert.Equal(t, turn.OutcomeUnknown, e.result.Outcome)
	assert.Equal(t, "x", call(t, h, "mcp/srv/read_note", `{}`).Text, "the effect was repeated")
}

func TestADeadlineIsUnknownAndEndsTheServersWork(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile))
	req := request(t, h, "mcp/srv/stubborn", `{"text":"x"}`)
	pid := readPIDs(t, pidfile)[0]
	req.Timeout = 100 * time.Millisecond
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "did not answer in time")
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond, "the server works on")
	assert.Equal(t, "next", call(t, h, "mcp/srv/echo", `{"text":"next"}`).Text)
}

func TestCancellingStopsAToolThatListensAndKeepsItsProcess(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile))
	ch, cancel := async(t, h, request(t, h, "mcp/srv/slow", `{"text":"x"}`))
	awaitEvent(t, ledger, "begun")
	cancel()
	e := receive(t, ch)
	require.NoError(t, e.err)
	assert.Equal(t, turn.OutcomeUnknown, e.result.Outcome)
	awaitEvent(t, ledger, "cancelled")
	assert.Equal(t, "y", call(t, h, "mcp/srv/echo", `{"text":"y"}`).Text)
	assert.Len(t, children(t), 1)
}

func TestCancellingReplacesAServerThatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	ledger, pidfile := filepath.Join(dir, "ledger"), filepath.Join(dir, "pid")
	opts := mcp.Options{CancelGrace: 50 * time.Millisecond}
	h := newHost(t, opts, stdioServer("srv", "-ledger", ledger, "-pidfile", pidfile))
	ch, cancel := async(t, h, request(t, h, "mcp/srv/stubborn", `{"text":"x"}`))
	awaitEvent(t, ledger, "begun")
	pid := readPIDs(t, pidfile)[0]
	cancel()
	assert.Equal(t, turn.OutcomeUnknown, receive(t, ch).result.Outcome)
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond, "the server works on")
}

func TestCancelledBeforeSendingIsNotSent(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	req := request(t, h, "mcp/srv/echo", `{"text":"x"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Call(ctx, req)
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
}

func TestAStoppedServerHoldsNoCallBeyondItsDeadline(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-pidfile", pidfile))
	// The text exceeds the capacity of a pipe, so that writing it blocks too.
	req := request(t, h, "mcp/srv/echo", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`)
	pid := readPIDs(t, pidfile)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	req.Timeout, req.Repeatable = 2*time.Second, false // writing a megabyte takes a part of it
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, "next", call(t, h, "mcp/srv/echo", `{"text":"next"}`).Text)
}

func TestHalfAMessageFailsAtOnceAndDoesNotPoisonTheNextCall(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	began := time.Now()
	r := call(t, h, "mcp/srv/garble", `{}`)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "begins like JSON and is not")
	assert.NotContains(t, r.Text, "jsonrpc", "what the server wrote is not for models")
	assert.False(t, r.FromServer, "so it does not taint the session: %s", r.Text)
	assert.Contains(t, h.Health()[0].LastError, `beginning with "{\"jsonrpc`, "but for people")
	assert.Less(t, time.Since(began), 10*time.Second)
	next := call(t, h, "mcp/srv/echo", `{"text":"next"}`)
	assert.Equal(t, "next", next.Text)
	assert.True(t, next.FromServer)
}

func TestAnAnswerOverTheFrameLimitIsUnknownAndHarmless(t *testing.T) {
	h := newHost(t, mcp.Options{MaxFrameBytes: 1 << 20}, stdioServer("srv"))
	req := request(t, h, "mcp/srv/big", `{"bytes":5000000}`)
	req.Repeatable = false
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "over the limit")
	assert.Equal(t, "next", call(t, h, "mcp/srv/echo", `{"text":"next"}`).Text)
}

func TestAnUnknownContentTypeFailsOnlyItsCall(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-mode", "content"))
	for range 2 {
		r := call(t, h, "mcp/srv/good", `{}`)
		assert.Equal(t, turn.OutcomeError, r.Outcome)
		assert.Contains(t, r.Text, "its answer cannot be read")
	}
	assert.Len(t, children(t), 1)
}

func TestDriftIsNotCalled(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-mode", "moody", "-pidfile", pidfile))
	req := request(t, h, "mcp/srv/good", `{}`)
	pid := readPIDs(t, pidfile)[0]
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { // until the host notices, calls are not sent
		_, err := h.Call(t.Context(), req)
		return turn.CodeOf(err) == turn.CodeToolDrift
	}, 10*time.Second, 5*time.Millisecond)
	req.Tool = "mcp/srv/gone"
	_, err := h.Call(t.Context(), req)
	assert.Equal(t, turn.CodeToolDrift, turn.CodeOf(err))
}

func TestUnknownServersAreNotSent(t *testing.T) {
	h := newHost(t, mcp.Options{})
	for _, id := range []string{"mcp/nope/tool", "local/tool", "tool", "", "mcp/local/x"} {
		_, err := h.Call(t.Context(), turn.ToolRequest{Tool: id})
		assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err), id)
	}
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "ledger")
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-ledger", ledger))
	req := request(t, h, "mcp/srv/stubborn", `{"text":"x"}`)
	ch, cancel := async(t, h, req)
	defer cancel()
	awaitEvent(t, ledger, "begun")
	began := time.Now()
	require.NoError(t, h.Close())
	assert.Less(t, time.Since(began), 5*time.Second)
	assert.Equal(t, turn.OutcomeUnknown, receive(t, ch).result.Outcome)
	_, err := h.Call(t.Context(), req)
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
}

// TestAnUnreadableLineIsNoAnswer has a server that writes a line which the SDK refuses while two calls are in flight.
// Both may have taken effect.
func TestAnUnreadableLineIsNoAnswer(t *testing.T) {
	for _, line := range []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"result":{}}`, `{}`} {
		ledger := filepath.Join(t.TempDir(), "ledger")
		h := newHost(t, mcp.Options{}, stdioServer("srv", "-ledger", ledger))
		working, cancel := async(t, h, request(t, h, "mcp/srv/stubborn", `{"text":"x"}`))
		defer cancel()
		awaitEvent(t, ledger, "begun")
		r := call(t, h, "mcp/srv/misspeak", `{"text":`+strconv.Quote(line)+`}`)
		assert.Equal(t, turn.OutcomeUnknown, r.Outcome, line)
		assert.Equal(t, turn.OutcomeUnknown, receive(t, working).result.Outcome, line)
	}
}
