package servers

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	kept "github.com/everturn/everturn/tests/replay"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// within bounds a turn, and how long a test waits for a server. It decides nothing: a test that waits this long has
// failed.
const within = time.Minute

// canary is a secret in the worker's environment, which no server may see.
const canary = "sk-canary-9f31c7d2a4"

// harness is an Everturn of its own with one MCP server: a scripted model, a journal, a task queue and a worker.
type harness struct {
	t       *testing.T
	server  string
	mark    string // of the server's processes
	model   *fakellm.Server
	cfg     config.Config
	client  client.Client
	journal *journal.DB
	turns   int
	// session is the session of all turns. If it is empty, each turn gets its own.
	session string
	called  map[string]bool // wire names
}

// newHarness starts a worker that hosts the server. Unless change says otherwise, no call needs approval: the tests are
// about the servers, and the model is a script.
func newHarness(t *testing.T, server config.MCPServer, change ...func(*config.Config)) *harness {
	t.Helper()
	server.Required, server.Timeouts.Connect = true, within
	r := &harness{t: t, server: server.ID, model: fakellm.Start(t, fakellm.Text("unused")), called: map[string]bool{}}
	dir := t.TempDir()
	if server.Command != "" {
		server.Env = maps.Clone(server.Env)
		r.leavesNothing(&server, dir)
	}
	r.cfg = config.Default()
	r.cfg.LLM.Provider, r.cfg.LLM.BaseURL, r.cfg.LLM.Model = config.ProviderOpenAI, r.model.URL(), "scripted"
	r.cfg.Runtime.Workspace = dir
	r.cfg.Runtime.MaxSteps, r.cfg.Runtime.MaxToolCalls, r.cfg.Runtime.MaxHistoryMessages = 100, 100, 1000
	r.cfg.Policy.AskRisk, r.cfg.Policy.Taint = turn.RiskNever, turn.TaintOff
	r.cfg.Journal.Path, r.cfg.Journal.Synchronous = filepath.Join(dir, "journal.db"), config.SynchronousNormal
	r.cfg.Temporal.Address = stack.Address
	r.cfg.Temporal.TaskQueue = fmt.Sprintf("q-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	r.cfg.Worker.DrainTimeout = 5 * time.Second
	r.cfg.MCP.Servers = []config.MCPServer{server}
	for _, c := range change {
		c(&r.cfg)
	}
	r.open()
	r.work()
	return r
}

// open connects the test itself, to start turns and to look at their results.
func (r *harness) open() {
	r.t.Helper()
	var err error
	r.client, err = temporalconn.Dial(r.t.Context(), temporalconn.Options{Address: stack.Address})
	require.NoError(r.t, err)
	r.t.Cleanup(r.client.Close)
	r.journal, err = sqlite.Open(r.t.Context(), r.cfg.Journal.Path, sqlite.Options{Synchronous: "normal"})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, r.journal.Close()) })
}

// markVariable is the environment variable that marks a server's process and everything it starts.
const markVariable = "EVERTURN_TEST_MARK"

// leavesNothing marks the server's process, and checks that nothing is left of it when the worker has ended.
func (r *harness) leavesNothing(server *config.MCPServer, mark string) {
	if server.Env == nil {
		server.Env = map[string]config.Secret{}
	}
	r.mark = mark
	server.Env[markVariable] = config.Secret(mark)
	r.t.Cleanup(func() { assert.Empty(r.t, r.processes(), "processes are left") })
}

// processes returns the commands of the server's processes.
func (r *harness) processes() (commands []string) {
	r.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(r.t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(markVariable+"="+r.mark+"\x00")) {
			continue // the process has ended, or belongs to another user
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // it is only shown
		commands = append(commands, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	return commands
}

// work runs the worker until the test ends.
func (r *harness) work() {
	r.t.Helper()
	e, err := engine.New(r.t.Context(), r.cfg, engine.WithEnviron(append(os.Environ(), "OPENAI_API_KEY="+canary)))
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.NoError(r.t, <-done)
		require.NoError(r.t, e.Close())
	})
}

// call is a tool call that the model makes.
type call struct {
	tool string // the server's own name
	args string // a JSON object; empty: {}
	// from makes the arguments from the results of the earlier calls of the turn.
	from func(results []string) string
	// ends is the expected outcome; empty: ok.
	ends turn.Outcome
}

// ask returns a call whose arguments are formatted with values as fmt.Sprintf does.
func ask(tool, args string, values ...any) call {
	if len(values) > 0 {
		args = fmt.Sprintf(args, values...)
	}
	return call{tool: tool, args: args}
}

// turn makes the calls in one turn, each in its own step, and returns the results as the model saw them. Each call must
// end with its expected outcome.
func (r *harness) turn(calls ...call) []string {
	return r.turnWith(func(context.Context, string) {}, calls...)
}

// turnWith is turn with a person: a function that gets the session once its turn has begun.
func (r *harness) turnWith(person func(ctx context.Context, session string), calls ...call) []string {
	r.t.Helper()
	r.turns++
	r.model.SetScript(fakellm.Func(func(req fakellm.Request) fakellm.Reply { return r.reply(calls, req) }))
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*within)
	defer cancel()
	run, err := r.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: cmp.Or(r.session, fmt.Sprintf("%s-%d", r.cfg.Temporal.TaskQueue, r.turns)), TaskQueue: r.cfg.Temporal.TaskQueue,
	}, workflows.TurnWorkflow, workflows.Input{Message: &workflows.Message{Text: "Do what the script says."}})
	require.NoError(r.t, err)
	person(ctx, run.GetID())
	var result workflows.Result
	require.NoError(r.t, run.Get(ctx, &result))
	require.Equal(r.t, turn.FinishAnswered, result.FinishReason)
	r.replays(ctx, run)
	return r.results(result.Turn, calls)
}

// replays checks that the turn's history replays on the current code.
func (r *harness) replays(ctx context.Context, run client.WorkflowRun) {
	r.t.Helper()
	var events []*historypb.HistoryEvent
	iter := r.client.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		require.NoError(r.t, err)
		events = append(events, e)
	}
	require.NoError(r.t, kept.Run(events))
}

func (r *harness) reply(calls []call, req fakellm.Request) fakellm.Reply {
	if len(req.Chat.ToolNames()) == 0 { // a server's sampling request brings no tools
		return fakellm.Text("The model has said this.")
	}
	if req.Step >= len(calls) {
		return fakellm.Text("That was all.")
	}
	c := calls[req.Step]
	args := c.args
	if c.from != nil {
		var results []string
		for _, m := range req.Chat.Messages {
			if m.Role == "tool" {
				results = append(results, m.Content)
			}
		}
		args = c.from(results)
	}
	if args == "" {
		args = "{}"
	}
	return fakellm.Call(r.wire(c.tool), args)
}

// wire returns the name under which the model sees a tool of the server.
func (r *harness) wire(tool string) string { return turn.WireName("mcp/" + r.server + "/" + tool) }

// results checks the outcomes of the calls in the ledger, and returns their texts.
func (r *harness) results(turnID string, calls []call) []string {
	r.t.Helper()
	records, err := r.journal.Calls(r.t.Context(), turnID)
	require.NoError(r.t, err)
	require.Len(r.t, records, len(calls))
	var texts []string
	for i, record := range records {
		want := cmp.Or(calls[i].ends, turn.OutcomeOK)
		assert.Equal(r.t, want, record.Outcome, "%s %s: %s", record.Call.Tool, record.Call.Arguments, record.Text)
		r.called[r.wire(calls[i].tool)] = true
		texts = append(texts, record.Text)
	}
	require.False(r.t, r.t.Failed(), "a call did not end as it should")
	return texts
}

// offersOnlyWhatWasCalled checks that the model is offered exactly the tools that the turns of this test have called,
// so that both the server's list and the test are complete.
func (r *harness) offersOnlyWhatWasCalled() {
	r.t.Helper()
	requests := r.model.Requests()
	require.NotEmpty(r.t, requests)
	var called, offered []string
	for _, name := range requests[len(requests)-1].Chat.ToolNames() {
		if strings.HasPrefix(name, "mcp_") {
			offered = append(offered, name)
		}
	}
	for name := range r.called {
		called = append(called, name)
	}
	slices.Sort(called)
	slices.Sort(offered)
	assert.Equal(r.t, called, offered, "left: called by the test; right: offered by the server")
}
