package tests

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	hopsLong = 100
	// pageBytes is the size of a tool's result in these tests.
	pageBytes = 5 << 10
	// sawtooth is the number of hops between two cuts of the window: it grows from 30 messages to 50, by two a hop.
	sawtooth = 11
	// measured is the number of hops over which costs are averaged: two whole sawtooths.
	measured = 2 * sawtooth
)

type pageIn struct {
	N int `json:"n"`
}

// page answers with 5 KB that are unique to the page, because equal results would share a blob.
func page(_ context.Context, in pageIn) (string, error) {
	line := fmt.Sprintf("page %06d of the book. ", in.N)
	return strings.Repeat(line, pageBytes/len(line)+1)[:pageBytes], nil
}

func withPage() []engine.Option {
	return []engine.Option{
		engine.WithTool("page", "Reads a page.", page, engine.Risk(turn.RiskLow)),
		engine.WithTool("quick_page", "Reads a page.", page, engine.LocalActivity(), engine.Risk(turn.RiskLow)),
	}
}

// hops is a model that calls a tool n times, once per completion, and then answers.
func hops(tool string, n int) fakellm.Script {
	return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if r.Step < n {
			return fakellm.Call(tool, fmt.Sprintf(`{"n":%d}`, r.Step))
		}
		return fakellm.Text("I have read it all.")
	})
}

// raised returns limits that do not stop a turn of n hops.
func raised(n int) *workflows.LimitsRequest {
	steps, timeout := n+10, "10m"
	return &workflows.LimitsRequest{MaxSteps: &steps, MaxToolCalls: &steps, TurnTimeout: &timeout}
}

// seed gives a session a transcript of that many turns, each a question and an answer of size bytes.
func (e *env) seed(session string, turns, size int) {
	e.t.Helper()
	ctx := e.t.Context()
	for i := range turns {
		id := fmt.Sprintf("%s-seed-%d", session, i)
		text := func(who string) string {
			line := fmt.Sprintf("%s says line %06d. ", who, i)
			return strings.Repeat(line, size/len(line)+1)[:size]
		}
		begun, err := e.journal.Begin(ctx, turn.BeginInput{Session: session, Turn: id, WorkflowID: session, RunID: id,
			Message: turn.UserMessage{ID: id, Text: text("user")}, At: time.Now()})
		require.NoError(e.t, err)
		key := journal.StepKey{Turn: id, Step: 1}
		inf, err := e.journal.StartInference(ctx,
			journal.StartInference{Session: session, Key: key, Expect: begun.Head, Provider: "openai", Model: "scripted", At: time.Now()})
		require.NoError(e.t, err)
		answer := turn.Completion{Text: text("model"), FinishReason: "stop"}
		_, err = e.journal.SettleInference(ctx, journal.SettleInference{Session: session, Key: key, Attempt: inf.Attempt,
			Answer: answer, Events: []turn.Event{{Kind: turn.EventTextDelta, Text: answer.Text, At: time.Now()}},
			Message: turn.Message{Text: answer.Text}, At: time.Now()})
		require.NoError(e.t, err)
		_, err = e.journal.Finish(ctx, turn.FinishInput{Session: session, Turn: id,
			Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered,
				Answer: answer.Text}, Counters: turn.Counters{Step: 1},
			At: time.Now()})
		require.NoError(e.t, err)
	}
}

// databaseBytes returns the journal's size: all pages of the database, including those still in its write-ahead log.
func (e *env) databaseBytes() int64 {
	db, err := sql.Open("sqlite", "file:"+e.cfg.Journal.Path)
	require.NoError(e.t, err)
	defer db.Close()
	var pages, size int64
	require.NoError(e.t, db.QueryRow("PRAGMA page_count").Scan(&pages))
	require.NoError(e.t, db.QueryRow("PRAGMA page_size").Scan(&size))
	return pages * size
}

// historyBytes returns the size of a history as sent over the wire.
func historyBytes(events []*historypb.HistoryEvent) int {
	n := 0
	for _, e := range events {
		n += proto.Size(e)
	}
	return n
}

// meter counts what goes into and comes out of a journal, at its port.
type meter struct {
	engine.Journal
	rows, read, written atomic.Int64
}

func (m *meter) wrap(s engine.Journal) engine.Journal { m.Journal = s; return m }

func jsonBytes(v any) int64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // types of our own always marshal
	}
	return int64(len(b))
}

func (m *meter) PromptContext(ctx context.Context, in journal.PromptContextInput) (journal.PromptContext, error) {
	out, err := m.Journal.PromptContext(ctx, in)
	m.rows.Add(int64(len(out.Messages)))
	m.read.Add(jsonBytes(out.Messages))
	return out, err
}

func (m *meter) Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error) {
	out, err := m.Journal.Window(ctx, turnID, from, to, maxBytes)
	m.rows.Add(int64(len(out)))
	m.read.Add(jsonBytes(out))
	return out, err
}

func (m *meter) StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error) {
	out, err := m.Journal.StepMessage(ctx, key)
	m.rows.Add(1)
	m.read.Add(jsonBytes(out))
	return out, err
}

func (m *meter) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	out, err := m.Journal.GetBlob(ctx, hash)
	m.rows.Add(1)
	m.read.Add(int64(len(out)))
	return out, err
}

func (m *meter) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	m.written.Add(jsonBytes(in))
	return m.Journal.StartInference(ctx, in)
}

func (m *meter) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	m.written.Add(jsonBytes(in))
	return m.Journal.SettleInference(ctx, in)
}

func (m *meter) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	m.written.Add(jsonBytes(in))
	return m.Journal.ClaimCall(ctx, in, approved, sensitive...)
}

func (m *meter) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	m.written.Add(jsonBytes(r))
	return m.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
}

func (m *meter) AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error {
	m.written.Add(jsonBytes(events))
	return m.Journal.AppendEvents(ctx, key, attempt, events)
}

func (m *meter) AppendStream(ctx context.Context, in journal.StreamInput) error {
	m.written.Add(jsonBytes(in.Events))
	return m.Journal.AppendStream(ctx, in)
}

// cost is what has been used up, in measures that do not depend on the machine.
type cost [len(measures)]float64

// measures are the names of a cost's numbers. A test leaves those at 0 that it does not measure.
var measures = [...]string{"bytes allocated", "messages read", "bytes read", "bytes given to the journal",
	"bytes read from files and sockets", "bytes of the journal", "bytes sent to the model", "events"}

const (
	filesRead = 4 + iota
	journalBytes
	sentToModel
	eventCount
)

// cost returns what has been allocated, and what has passed the journal's port.
func (m *meter) cost() cost {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return cost{float64(mem.TotalAlloc), float64(m.rows.Load()), float64(m.read.Load()), float64(m.written.Load())}
}

// since returns the average cost of n turns or hops since an earlier cost.
func (c cost) since(before cost, n float64) cost {
	for i := range c {
		c[i] = (c[i] - before[i]) / n
	}
	return c
}

// atMost checks that no number exceeds that of another cost more than so many times.
func (c cost) atMost(t *testing.T, other cost, times float64) {
	t.Helper()
	for i, what := range measures {
		t.Logf("%s: %.0f and %.0f", what, other[i], c[i])
		assert.LessOrEqual(t, c[i], times*other[i], what)
	}
}

// sampler takes the cost at each request of the model.
type sampler struct {
	harness *env
	meter   *meter
	mu      sync.Mutex
	costs   []cost
	sent    float64
}

func (s *sampler) watch(inner fakellm.Script) fakellm.Script {
	return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent += float64(len(r.Body))
		c := s.meter.cost()
		c[journalBytes], c[sentToModel] = float64(s.harness.databaseBytes()), s.sent
		s.costs = append(s.costs, c)
		return inner.Reply(r)
	})
}

// perHop returns the average cost of a hop over measured hops, starting at a step.
func (s *sampler) perHop(from int) cost { return s.costs[from+measured].since(s.costs[from], measured) }

// TestAHundredStepsCostTheSameEach is not parallel, because it measures what this process allocates.
func TestAHundredStepsCostTheSameEach(t *testing.T) {
	for tool, most := range map[string]int{"local_page": 12, "local_quick_page": 7} {
		t.Run(tool, func(t *testing.T) {
			e := newEnv(t, nil)
			s := &sampler{harness: e, meter: &meter{}}
			e.model.SetScript(s.watch(hops(tool, hopsLong)))
			e.seed("long", 160, 2500)
			before := e.databaseBytes()
			e.work(append(withPage(), engine.WithJournal(s.meter.wrap))...)
			run := e.begin("long", "Read the whole book.", raised(hopsLong))
			res := e.result(run)
			assert.Equal(t, turn.FinishAnswered, res.FinishReason)
			assert.Equal(t, hopsLong, res.ToolCalls)
			t.Run("keeps its history small", func(t *testing.T) { smallHistory(t, e, run.GetRunID(), most) })
			t.Run("keeps its journal small", func(t *testing.T) {
				grown := e.databaseBytes() - before
				t.Logf("journal grew by %d bytes", grown)
				assert.LessOrEqual(t, grown, int64(3<<20))
			})
			t.Run("costs the same at hop 100 as at hop 10", func(t *testing.T) { flat(t, s) })
			t.Run("cuts its prompts in blocks", func(t *testing.T) { blocks(t, e.model.Requests(), "Read the whole book.") })
			paired(t, e, "long")
		})
	}
}

func smallHistory(t *testing.T, e *env, runID string, most int) {
	events := e.events("long", runID)
	described, err := e.client.DescribeWorkflowExecution(t.Context(), "long", runID)
	require.NoError(t, err)
	size := historyBytes(events)
	t.Logf("%d events, %d bytes, %d by the server's count", len(events), size,
		described.WorkflowExecutionInfo.HistorySizeBytes)
	assert.LessOrEqual(t, size, 600<<10)
	assert.LessOrEqual(t, described.WorkflowExecutionInfo.HistorySizeBytes, int64(600<<10))
	withinBudget(t, events, 14+hopsLong*most)
}

// flat compares hops 8 to 30 with hops 78 to 100. Both ranges have a full window and cuts, because the session was long
// before the turn.
func flat(t *testing.T, s *sampler) {
	require.Len(t, s.costs, hopsLong+1)
	s.perHop(hopsLong-measured).atMost(t, s.perHop(8), 1.2)
}

// blocks checks the prompts that the model received: each extends the one before except for at most one cut in ten
// hops, results come with their calls, and the turn's own user message is always there.
func blocks(t *testing.T, requests []fakellm.Request, asked string) {
	require.Len(t, requests, hopsLong+1)
	cuts, lastCut := 0, -10
	for i, request := range requests {
		complete(t, request.Chat, asked)
		if i > 0 && !bytes.HasPrefix(request.Body, messagesOf(t, requests[i-1].Body)) {
			assert.GreaterOrEqual(t, i-lastCut, 10, "the prefix changed at step %d and at step %d", lastCut, i)
			cuts, lastCut = cuts+1, i
		}
		assert.LessOrEqual(t, len(request.Chat.Messages), 52, "messages of step %d", i)
	}
	t.Logf("%d cuts in %d hops, the longest request has %d bytes", cuts, hopsLong, longest(requests))
	assert.LessOrEqual(t, cuts, hopsLong/10)
	assert.NotZero(t, cuts)
	assert.LessOrEqual(t, longest(requests), 52*2*pageBytes)
}

// messagesOf returns the beginning of a request's body, up to its last message.
func messagesOf(t *testing.T, body []byte) []byte {
	end := bytes.Index(body, []byte(`],"stream"`))
	require.Positive(t, end)
	return body[:end]
}

func longest(requests []fakellm.Request) int {
	n := 0
	for _, r := range requests {
		n = max(n, len(r.Body))
	}
	return n
}

// complete checks that each result of a prompt follows the completion that requested it, and that the prompt has the
// user message.
func complete(t *testing.T, chat fakellm.Chat, asked string) {
	t.Helper()
	open, found := map[string]bool{}, false
	for _, m := range chat.Messages {
		switch m.Role {
		case "assistant":
			for _, c := range m.ToolCalls {
				open[c.ID] = true
			}
		case "tool":
			require.True(t, open[m.ToolCallID], "a result without its call: %s", m.ToolCallID)
			delete(open, m.ToolCallID)
		case "user":
			found = found || m.Content == asked
		}
	}
	require.Empty(t, open, "calls without a result")
	require.True(t, found, "the turn's own request is not in the prompt")
}

// paired checks that each call of a session's transcript has its result, and returns it.
func paired(t *testing.T, e *env, session string) []turn.Message {
	t.Helper()
	messages, head := e.transcript(session)
	require.Len(t, messages, int(head.Seq))
	require.Empty(t, check.Transcript(session, messages))
	return messages
}

// chain follows continue-as-new from a run to the last one, and marks all runs for replay.
func (e *env) chain(session, first string) []string {
	e.t.Helper()
	runs := []string{first}
	for {
		events := e.events(session, runs[len(runs)-1])
		e.t.Logf("run %d: %d events, %d bytes", len(runs), len(events), historyBytes(events))
		last := events[len(events)-1]
		if last.EventType != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW {
			return runs
		}
		next := last.GetWorkflowExecutionContinuedAsNewEventAttributes().NewExecutionRunId
		runs = append(runs, next)
		e.ran = append(e.ran, workflow.Execution{ID: session, RunID: next})
	}
}
