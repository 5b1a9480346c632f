package tests

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// eventLog is a sink that keeps what it gets.
type eventLog struct {
	mu       sync.Mutex
	received []engine.Event
}

func (l *eventLog) send(_ context.Context, e engine.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received = append(l.received, e)
	return nil
}

// events waits for the end of a turn and returns its events.
func (l *eventLog) events(t *testing.T, session, turnID string) []turn.Event {
	t.Helper()
	var out []turn.Event
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		out = nil
		for _, e := range l.received {
			if e.Turn == turnID {
				assert.Equal(t, session, e.Session)
				out = append(out, e.Event)
			}
		}
		return len(out) > 0 && out[len(out)-1].Kind == turn.EventTurnCompleted
	}, within, 10*time.Millisecond)
	return out
}

// TestASinkGetsWhatFollowShows sends events to a sink that works beside sinks that fail, panic and never return, which
// delay neither the turn nor the end of the worker for long.
func TestASinkGetsWhatFollowShows(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_list_files", `{}`), fakellm.Text("There are no files.")))
	good := &eventLog{}
	hung := make(chan struct{})
	defer close(hung)
	var output lines
	stop := e.work(
		engine.WithLogger(slog.New(slog.NewTextHandler(&output, nil))),
		engine.WithSink(good.send),
		engine.WithSink(func(context.Context, engine.Event) error { return errors.New("no") }),
		engine.WithSink(func(context.Context, engine.Event) error { panic("no") }),
		engine.WithSink(func(context.Context, engine.Event) error { <-hung; return nil }),
	)
	run := e.begin(t.Name(), "Which files are here?", nil)
	require.Equal(t, "There are no files.", e.result(run).Answer)
	want, err := e.journal.Events(t.Context(), run.GetRunID(), -1, 1000)
	require.NoError(t, err)
	assert.Equal(t, want, good.events(t, t.Name(), run.GetRunID()), "each event once, in order")
	require.Eventually(t, func() bool { return output.count("events for a sink were dropped") == 2 }, within,
		10*time.Millisecond, "the sinks that fail and panic")
	stop()
	assert.Equal(t, 1, output.count("the worker stops"), "the sink that hangs")
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// TestASinkOfTheNextWorkerGetsTheWholeTurn moves a turn that waits for its user to another worker.
func TestASinkOfTheNextWorkerGetsTheWholeTurn(t *testing.T) {
	t.Parallel()
	te := newEnv(t, fakellm.Steps(fakellm.Call("local_list_files", `{}`), fakellm.Text("There are no files.")),
		func(c *config.Config) { c.Policy.Ask = []string{"local/list_files"} })
	first, second := &eventLog{}, &eventLog{}
	stop := te.work(engine.WithSink(first.send))
	run := te.begin(t.Name(), "Which files are here?", nil)
	asked := func(e engine.Event) bool { return e.Kind == turn.EventApprovalRequested }
	require.Eventually(t, func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return slices.ContainsFunc(first.received, asked)
	}, within, 10*time.Millisecond)
	stop()
	te.work(engine.WithSink(second.send))
	pending, err := te.journal.PendingRequests(t.Context(), t.Name(), 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	te.allow(t.Name(), pending[0], "")
	require.Equal(t, "There are no files.", te.result(run).Answer)
	want, err := te.journal.Events(t.Context(), run.GetRunID(), -1, 1000)
	require.NoError(t, err)
	assert.Equal(t, want, second.events(t, t.Name(), run.GetRunID()))
}

// servers returns the server events of a kind by the process that they are about.
func (l *eventLog) servers(t *testing.T, kind turn.EventKind) map[int]engine.ServerEvent {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[int]engine.ServerEvent{}
	for _, e := range l.received {
		if e.Kind == kind {
			var data engine.ServerEvent
			require.NoError(t, json.Unmarshal(e.Data, &data))
			assert.Empty(t, e.Turn)
			assert.NotContains(t, found, data.PID, "once each")
			found[data.PID] = data
		}
	}
	return found
}

// TestASinkGetsTheStartsAndEndsOfServers kills the process of a server, and stops the worker.
func TestASinkGetsTheStartsAndEndsOfServers(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	e := newEnv(t, fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x"}`), fakellm.Text("Done.")),
		l.host(config.MCPTool{}))
	log := &eventLog{}
	stop := e.work(engine.WithSink(log.send))
	l.open()
	require.Equal(t, "Done.", e.ask(t.Name(), "Append.").Answer)
	pid := l.server()
	assert.Equal(t, engine.ServerEvent{Server: "ledger", PID: pid}, log.servers(t, engine.EventServerStarted)[pid])
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return len(log.servers(t, engine.EventServerEnded)[pid].Ended) > 0 }, within,
		10*time.Millisecond)
	assert.Equal(t, engine.ServerEvent{Server: "ledger", PID: pid, Ended: "signal: killed"},
		log.servers(t, engine.EventServerEnded)[pid])
	stop()
	assert.Len(t, log.servers(t, engine.EventServerEnded), len(log.servers(t, engine.EventServerStarted)))
}

// TestASensitiveArgumentReachesOnlyTheTool calls a tool with a password, beside another one: the tool and the user who
// approves the call get it, but neither a sink nor the stream of a finished call.
func TestASensitiveArgumentReachesOnlyTheTool(t *testing.T) {
	t.Parallel()
	const secret = "canary-of-ann"
	e := newEnv(t, fakellm.Steps(fakellm.Calls(
		fakellm.ToolCall{Name: "local_login", Arguments: `{"user":"ann","password":"` + secret + `"}`},
		fakellm.ToolCall{Name: "local_join", Arguments: `{"user":"bea","password":"` + secret + `"}`},
	), fakellm.Text("In.")),
		func(c *config.Config) { c.Policy.Ask = []string{"local/login"} })
	type login struct {
		User     string `json:"user"`
		Password string `json:"password"`
	}
	got := make(chan login, 1)
	log := &eventLog{}
	e.work(engine.WithSink(log.send), engine.WithTool("login", "Logs in.",
		func(_ context.Context, in login) (string, error) { got <- in; return "ok", nil }), engine.WithTool("join", "Joins.",
		func(context.Context, login) (string, error) { return "ok", nil }, engine.Risk(turn.RiskMedium)))
	run := e.begin(t.Name(), "Log in.", nil)
	asked := e.waits(run.GetRunID(), 1)[0]
	assert.Contains(t, asked.Arguments, secret, "a user approves exactly this")
	require.NotNil(t, asked.Beside)
	assert.Contains(t, asked.Beside.Calls[0].Arguments, secret)
	e.allow(t.Name(), asked, "")
	require.Equal(t, "In.", e.result(run).Answer)
	assert.Equal(t, login{"ann", secret}, <-got)

	shown := 0
	for _, event := range log.events(t, t.Name(), run.GetRunID()) {
		assert.NotContains(t, string(event.Data), secret, event.Kind)
		shown += strings.Count(string(event.Data), `\"user\":\"`)
	}
	assert.Equal(t, 6, shown, "the request, the decision and the call, each of two calls")
	events, err := e.journal.Events(t.Context(), run.GetRunID(), -1, 1000)
	require.NoError(t, err)
	for _, event := range events {
		if event.Kind == turn.EventToolCallStarted {
			assert.NotContains(t, string(event.Data), secret)
		}
	}
}
