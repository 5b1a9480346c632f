package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/proc"
	"github.com/everturn/everturn/workflows/turn"
)

// within bounds how long a test waits for an event. A test that waits this long has failed; no assertion depends on the
// value.
const within = 3 * time.Minute

// process is the real worker command in its own process group, so that a test can kill it.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read once done is closed
	done   <-chan struct{}
}

// process starts the worker command with the harness's configuration, which change may adapt. The worker ends with the
// test, even if the test binary is killed; if the test fails, its output is logged.
func (e *env) process(change ...func(*config.Config)) *process {
	e.t.Helper()
	cfg := e.cfg
	for _, c := range change {
		c(&cfg)
	}
	return e.run(exec.Command(binary(e.t, "./worker"), "--config", configFile(e.t, cfg)))
}

// run starts a worker command.
func (e *env) run(cmd *exec.Cmd) *process {
	e.t.Helper()
	p := &process{t: e.t, cmd: cmd}
	p.cmd.Dir, p.cmd.Stderr, p.cmd.WaitDelay = e.dir, &p.stderr, 2*time.Second
	var err error
	p.done, err = proc.Start(p.cmd)
	require.NoError(e.t, err)
	e.t.Cleanup(p.end)
	return p
}

func (p *process) end() {
	_ = p.cmd.Process.Kill() // the process may have exited already
	<-p.done
	if p.t.Failed() {
		p.t.Logf("worker %d, %s, said:\n%s", p.cmd.Process.Pid, p.cmd.ProcessState, p.stderr.Bytes())
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill kills only the worker process and returns once it is reaped.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// running checks that the worker has not exited.
func (p *process) running() {
	p.t.Helper()
	select {
	case <-p.done:
		require.Fail(p.t, "the worker has ended", "%s", p.cmd.ProcessState)
	default:
	}
}

// exit waits until the worker exits by itself.
func (p *process) exit() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		require.Fail(p.t, "the worker does not stop")
	}
	require.True(p.t, p.cmd.ProcessState.Success(), "the worker ended with %s", p.cmd.ProcessState)
}

// configFile writes a configuration as an agent.toml and checks that loading it gives the same configuration.
func configFile(t *testing.T, c config.Config) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, (&config.Loaded{Config: c}).Show(&b, false))
	path := filepath.Join(t.TempDir(), "agent.toml")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	loaded, err := config.Load(config.LoadOptions{Path: path})
	require.NoError(t, err)
	require.EqualExportedValues(t, c, loaded.Config)
	return path
}

// effectServer is what a harness's MCP server did, as the server itself recorded it before and after each effect.
type effectServer struct {
	t                  *testing.T
	file, release, pid string
}

func newEffectServer(t *testing.T) *effectServer {
	dir := t.TempDir()
	return &effectServer{t: t, file: filepath.Join(dir, "ledger"), release: filepath.Join(dir, "release"),
		pid: filepath.Join(dir, "pid")}
}

// host configures the server, with the operator's settings for its tool append.
func (l *effectServer) host(tool config.MCPTool) func(*config.Config) {
	tool.Risk = turn.RiskLow
	return func(c *config.Config) {
		c.MCP.Servers = []config.MCPServer{{
			ID: "ledger", Command: binary(l.t, "./tests/mcpserver"),
			Args:               []string{"-ledger", l.file, "-release", l.release, "-pidfile", l.pid},
			Timeouts:           config.MCPTimeouts{Connect: 10 * time.Second},
			MaxConcurrentCalls: 64,
			Tools:              map[string]config.MCPTool{"append": tool, "stubborn": {Risk: turn.RiskLow}},
		}}
	}
}

// count returns how often the ledger has an event.
func (l *effectServer) count(event, text string) int {
	b, err := os.ReadFile(l.file)
	if err != nil {
		return 0
	}
	line, err := json.Marshal(map[string]string{"event": event, "text": text})
	require.NoError(l.t, err)
	return bytes.Count(b, append(line, '\n'))
}

// await returns when the ledger has the event, so that the test can act at that point.
func (l *effectServer) await(event, text string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.count(event, text) > 0 }, within, 5*time.Millisecond,
		"%s of %s was never reached", event, text)
}

// open lets blocked calls continue.
func (l *effectServer) open() { require.NoError(l.t, os.WriteFile(l.release, nil, 0o600)) }

// server returns the process ID of the server that was started last.
func (l *effectServer) server() int {
	l.t.Helper()
	b, err := os.ReadFile(l.pid)
	require.NoError(l.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(l.t, err)
	return pid
}

// gone waits until a process has exited. A zombie counts as exited.
func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(b, []byte(") Z "))
	}, within, 5*time.Millisecond, "process %d is an orphan", pid)
}

// reach returns when a reply has come to the gate, so that the test can act at that point.
func (e *env) reach(g *fakellm.Gate) { awaitGate(e.t, g) }

// shown returns when a reader of the turn sees the text.
func (e *env) shown(turnID, text string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	var reader turn.Reader
	for ev, err := range follow.Turn(ctx, e.journal, turnID, -1) {
		require.NoError(e.t, err, "%q was never shown", text)
		reader.Add(ev)
		if reader.Text() == text {
			return
		}
	}
	require.Fail(e.t, "the turn ended without showing "+text)
}

// steps returns the steps for which the model was asked, in order of arrival.
func (e *env) steps() []int {
	var out []int
	for _, q := range e.model.Requests() {
		out = append(out, q.Step)
	}
	return out
}

// attempts returns the number of attempts of each inference of a turn.
func (e *env) attempts(turnID string) []int {
	e.t.Helper()
	list, err := e.journal.Inferences(e.t.Context(), turnID)
	require.NoError(e.t, err)
	out := make([]int, len(list))
	for i, inf := range list {
		out[i] = inf.Attempt
	}
	return out
}

// calls returns a turn's calls from the journal and checks that there are n.
func (e *env) calls(turnID string, n int) []journal.CallRecord {
	e.t.Helper()
	list, err := e.journal.Calls(e.t.Context(), turnID)
	require.NoError(e.t, err)
	require.Len(e.t, list, n)
	return list
}

// transcript returns a session's messages and its head.
func (e *env) transcript(session string) ([]turn.Message, turn.Head) {
	e.t.Helper()
	s, err := e.journal.Session(e.t.Context(), session)
	require.NoError(e.t, err)
	messages, err := e.journal.Messages(e.t.Context(), session, 1, s.Head.Seq)
	require.NoError(e.t, err)
	return messages, s.Head
}

// sound checks the promises about a session whose turns are over, whatever happened to its workers, and about its runs.
// Of long sessions it checks only the runs.
func (e *env) sound(ctx context.Context, session string, runs map[string]*historypb.History) {
	e.t.Helper()
	turns, err := e.journal.Turns(ctx, session)
	if !errors.Is(err, journal.ErrNotFound) { // no turn began
		require.NoError(e.t, err)
	}
	l := check.Ledgers{Partial: true, Histories: runs}
	if !e.open && len(turns) > 0 && len(turns) <= 50 {
		l.Sessions, l.Waits = e.kept(ctx, session)
	}
	for _, v := range check.Check(l) {
		assert.Fail(e.t, "a promise is broken", "session %s: %s", session, v)
	}
}

// kept returns what the journal has of a session: its export and its requests.
func (e *env) kept(ctx context.Context, session string) ([]check.Session, []turn.Request) {
	e.t.Helper()
	var export bytes.Buffer
	require.NoError(e.t, e.journal.Export(ctx, session, &export))
	s, err := check.ReadSession(session, export.Bytes())
	require.NoError(e.t, err)
	var waits []turn.Request
	turns, err := e.journal.Turns(ctx, session)
	require.NoError(e.t, err)
	for _, t := range turns {
		list, err := e.journal.Requests(ctx, t.ID)
		require.NoError(e.t, err)
		waits = append(waits, list...)
	}
	return []check.Session{s}, waits
}
