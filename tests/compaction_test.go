package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// reader is a model with a context window that counts tokens and caches the longest prefix that it has seen, as
// providers do. It answers requests for summaries with summary, and others by its script.
type reader struct {
	script  fakellm.Script
	summary fakellm.Script
	window  int // in tokens; longer requests are refused

	mu      sync.Mutex
	last    []string // the messages of the last prompt
	prompts []seen
	asked   int // for summaries
}

// seen is what the reader has seen of a prompt, in bytes.
type seen struct{ bytes, cached, tokens int }

func isSummary(r fakellm.Request) bool {
	return len(r.Chat.Messages) > 0 && strings.HasPrefix(r.Chat.Messages[0].Content, "You summarize")
}

func (m *reader) Reply(r fakellm.Request) fakellm.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	tokens := len(r.Body) / 4
	if isSummary(r) {
		m.asked++
		return m.summary.Reply(r).Usage(tokens, 50, 0)
	}
	if m.window > 0 && tokens > m.window {
		return fakellm.Status(400, "context_length_exceeded",
			fmt.Sprintf("This model's maximum context length is %d tokens", m.window))
	}
	var messages []string
	same, shared := true, 0
	for i, msg := range r.Chat.Messages {
		text := fmt.Sprintf("%+v", msg)
		messages = append(messages, text)
		if same = same && i < len(m.last) && m.last[i] == text; same {
			shared += len(text)
		}
	}
	m.last = messages
	m.prompts = append(m.prompts, seen{len(strings.Join(messages, "")), shared, tokens})
	return m.script.Reply(r).Usage(tokens, 20, shared/4)
}

// compacting configures a context window of so many tokens.
func compactionSettings(tokens int64) func(*config.Config) {
	return func(c *config.Config) {
		c.Models = append(c.Models, config.Model{Name: c.LLM.Model, ContextTokens: tokens})
	}
}

// compactedEvents returns the reports of a turn's compactions.
func (e *env) compactedEvents(turnID string) (list []turn.CompactedEvent) {
	e.t.Helper()
	events, err := e.journal.Events(e.t.Context(), turnID, -1, 100_000)
	require.NoError(e.t, err)
	for _, ev := range events {
		if ev.Kind == turn.EventCompacted {
			var data turn.CompactedEvent
			require.NoError(e.t, json.Unmarshal(ev.Data, &data))
			list = append(list, data)
		}
	}
	return list
}

// TestALongTurnIsCompacted checks a turn of a hundred hops on a transcript of 0.8 MB: no prompt exceeds the context
// window, each extends the one before byte for byte until the next compaction, and the history stays small.
func TestALongTurnIsCompacted(t *testing.T) {
	const window = 32_000
	m := &reader{script: hops("local_quick_page", hopsLong), summary: fakellm.Text("They read a book."), window: window}
	e := newEnv(t, m, compactionSettings(window))
	e.seed("long", 160, 2500)
	e.work(withPage()...)
	run := e.begin("long", "Read the whole book.", raised(hopsLong))
	res := e.result(run)
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	made := e.compactedEvents(res.Turn)
	require.NotEmpty(t, made)
	for _, c := range made {
		t.Log(c)
		assert.Greater(t, c.Before, c.Threshold)
		assert.Less(t, c.After, int64(window/2))
	}
	tokens, broken := int64(0), 0
	for i, p := range m.prompts {
		tokens += int64(p.tokens)
		assert.Less(t, p.tokens, window)
		if i > 0 && p.cached != m.prompts[i-1].bytes {
			broken++
		}
	}
	assert.LessOrEqual(t, broken, len(made), "prompts that do not extend the one before")
	summaries, err := e.journal.Compactions(t.Context(), "long")
	require.NoError(t, err)
	for _, c := range summaries {
		tokens += c.Usage.InputTokens
	}
	assert.Equal(t, tokens, res.Usage.InputTokens, "the turn counts its summaries")
	events := e.events("long", run.GetRunID())
	t.Logf("history: %d bytes, compactions: %d", historyBytes(events), len(made))
	assert.LessOrEqual(t, historyBytes(events), 400_000)
}

// TestACompactionInATurnKeepsItsRequest checks that each prompt of a turn has the turn's request to its last word, even
// if the request exceeds what a compaction keeps of the user's messages.
func TestACompactionInATurnKeepsItsRequest(t *testing.T) {
	const window, end = 32_000, "and begin with the chapter on ferries"
	m := &reader{script: hops("local_quick_page", 30), summary: fakellm.Text("They read a book."), window: window}
	whole := fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		if !isSummary(r) {
			assert.True(t, strings.Contains(string(r.Body), end), "step %d lacks the end of the request", r.Step)
		}
		return m.Reply(r)
	})
	e := newEnv(t, whole, compactionSettings(window))
	e.work(withPage()...)
	res := e.result(e.begin("long", "Read the book."+strings.Repeat(" Read on.", 2000)+end, raised(30)))
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	require.NotEmpty(t, e.compactedEvents(res.Turn))
}

// TestCompactedPromptsAreCached checks the part of a prompt that a provider finds in its cache ten steps after a
// compaction.
func TestCompactedPromptsAreCached(t *testing.T) {
	const window = 128_000
	m := &reader{script: hops("local_quick_page", 11), summary: fakellm.Text("They talked."), window: window}
	e := newEnv(t, m, compactionSettings(window))
	e.seed("s", 160, 2500)
	e.work(withPage()...)
	res := e.result(e.begin("s", "Read.", raised(11)))
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	require.Len(t, e.compactedEvents(res.Turn), 1)
	tenth := m.prompts[9]
	t.Logf("cached at step 10: %d of %d bytes", tenth.cached, tenth.bytes)
	assert.GreaterOrEqual(t, float64(tenth.cached), 0.95*float64(tenth.bytes))
}

// TestPlantedFactsSurviveACompaction plants thirty facts: ten in user messages, ten in answers, and ten in tool
// outputs. Those of the user are in the next prompt word for word; outputs are named, and read_artifact finds them.
func TestPlantedFactsSurviveACompaction(t *testing.T) {
	fact := func(who string, i int) string { return fmt.Sprintf("the %s of vault %d is %04d", who, i, 7*i+1000) }
	output := func(_ context.Context, in pageIn) (string, error) {
		return fact("code", in.N) + ". " + strings.Repeat(fmt.Sprintf("filler %d. ", in.N), 400), nil
	}
	var last fakellm.Request
	summary := fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		return fakellm.Text("Notes: " + fact("colour", 3))
	})
	m := &reader{summary: summary, script: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		last = r
		var i int
		if _, err := fmt.Sscanf(r.Chat.Asked(), "Remember %d:", &i); err == nil && r.Step == 0 {
			return fakellm.Call("local_page", fmt.Sprintf(`{"n":%d}`, i))
		}
		return fakellm.Text(fact("colour", i))
	})}
	e := newEnv(t, m, compactionSettings(12_000))
	e.work(engine.WithTool("page", "Reads a page.", output, engine.Risk(turn.RiskLow)))
	for i := range 10 {
		e.ask("facts", fmt.Sprintf("Remember %d: %s", i, fact("owner", i)))
	}
	list, err := e.journal.Compactions(t.Context(), "facts")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	e.result(e.begin("facts", "What do you know?", nil))
	prompt := string(last.Body)
	kept := map[string]int{}
	for i := range 10 {
		for _, who := range []string{"owner", "colour", "code"} {
			if strings.Contains(prompt, fact(who, i)) {
				kept[who]++
			}
		}
	}
	t.Logf("verbatim in the next prompt: %v of 10 each", kept)
	assert.Equal(t, 10, kept["owner"], "the user's own words")
	c := list[len(list)-1]
	turns, err := e.journal.Turns(t.Context(), "facts")
	require.NoError(t, err)
	require.NotEmpty(t, c.Kept.Refs)
	for _, ref := range c.Kept.Refs {
		assert.Contains(t, prompt, ref.Artifact)
		_, b, err := e.journal.Artifact(t.Context(), turns[len(turns)-1].ID, ref.Artifact)
		require.NoError(t, err)
		assert.Contains(t, string(b), "the code of vault")
	}
}

// TestAHugeResultIsPrunedInMidTurn checks that a prompt is compacted when a single result would exceed the context
// window, without a model's help.
func TestAHugeResultIsPrunedInMidTurn(t *testing.T) {
	const window = 16_000
	script := fakellm.Steps(fakellm.Calls(fakellm.ToolCall{Name: "local_big", Arguments: `{"n":1}`},
		fakellm.ToolCall{Name: "local_big", Arguments: `{"n":2}`}), fakellm.Text("done"))
	m := &reader{window: window, summary: fakellm.Text("unused"), script: script}
	e := newEnv(t, m, compactionSettings(window))
	e.work(engine.WithTool("big", "Returns a lot.", func(_ context.Context, in pageIn) (string, error) {
		return strings.Repeat(fmt.Sprintf("line of %d. ", in.N), 4000), nil
	}, engine.Risk(turn.RiskLow)))
	run := e.begin("huge", "go", nil)
	res := e.result(run)
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	e.keep("v1-compacted", "huge", run.GetRunID())
	made := e.compactedEvents(res.Turn)
	require.Len(t, made, 1)
	assert.Equal(t, turn.CompactionPruned, made[0].Method)
	assert.Zero(t, m.asked)
}

// TestAnOverflowCompactsOnce checks a model whose context window is not known: the prompt that it refuses is compacted
// once, and if that does not help, the turn fails with the code.
func TestAnOverflowCompactsOnce(t *testing.T) {
	m := &reader{window: 9_000, summary: fakellm.Text("They talked."), script: fakellm.Text("done")}
	te := newEnv(t, m)
	te.seed("overflow", 20, 1500)
	te.work()
	res := te.ask("overflow", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	made := te.compactedEvents(res.Turn)
	require.Len(t, made, 1)
	assert.Equal(t, turn.CompactionOverflow, made[0].Reason)
	m.window = 100
	e, _ := te.failure(te.begin("overflow", "go on", nil))
	assert.Equal(t, string(turn.CodeContextOverflow), e.Type())
}

// TestACompactionNeverFailsATurn checks that a summary model that always fails is asked twice, and that the turn then
// goes on with what is kept mechanically.
func TestACompactionNeverFailsATurn(t *testing.T) {
	for name, summary := range map[string]fakellm.Script{
		"refused": fakellm.Status(400, "invalid_request_error", "no such model"), "empty": fakellm.Text(" "),
		"filtered": fakellm.Text("half").Finish("content_filter"),
	} {
		t.Run(name, func(t *testing.T) {
			m := &reader{window: 9_000, summary: summary, script: fakellm.Text("done")}
			e := newEnv(t, m, compactionSettings(9_000))
			e.seed("s", 20, 1500)
			e.work()
			res := e.ask("s", "Remember the blue door.")
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			made := e.compactedEvents(res.Turn)
			require.Len(t, made, 1)
			assert.Equal(t, turn.CompactionTruncated, made[0].Method)
			assert.NotEmpty(t, made[0].Warning)
			assert.Equal(t, 2, m.asked)
		})
	}
}

// TestOffMeansOff checks that nothing is compacted if the operator has turned it off, although the prompt exceeds the
// trigger.
func TestOffMeansOff(t *testing.T) {
	m := &reader{summary: fakellm.Text("They talked."), script: fakellm.Text("done")}
	e := newEnv(t, m, compactionSettings(17_000), func(c *config.Config) { c.Prompt.Compaction = config.CompactionOff })
	e.seed("off", 40, 1500)
	e.work()
	res := e.ask("off", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason)
	assert.Empty(t, e.compactedEvents(res.Turn))
	assert.Zero(t, m.asked)
}

// TestARewindUndoesACompaction checks the prompts of forks before and after a compaction, and that a tainted or
// pruned past stays what it is.
func TestARewindUndoesACompaction(t *testing.T) {
	var last fakellm.Request
	m := &reader{summary: fakellm.Text("They talked."), script: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		last = r
		return fakellm.Text("done")
	})}
	e := newEnv(t, m, compactionSettings(8_000))
	e.seed("s", 20, 1500)
	e.work()
	e.ask("s", "go on")
	head, err := e.journal.Session(t.Context(), "s")
	require.NoError(t, err)
	compaction := func() bool {
		return slices.ContainsFunc(last.Chat.Messages, func(m fakellm.Message) bool {
			return strings.HasPrefix(m.Content, "[Messages 1 to ")
		})
	}
	require.True(t, compaction())
	for at, want := range map[int64]bool{4: false, head.Head.Seq: true} {
		id := fmt.Sprint("fork-", at)
		_, err := e.journal.Fork(t.Context(), journal.ForkInput{Session: "s", At: at, ID: id})
		require.NoError(t, err)
		asked := m.asked
		e.ask(id, "and now?")
		assert.Equal(t, want, compaction(), "a fork at %d", at)
		assert.Equal(t, asked, m.asked, "nothing is summarized twice")
	}
}

// TestASessionIsCompactedByHand checks that a user can compact a session whose turn has ended, that the worker asks
// for a summary once, and that a running turn is left alone.
func TestASessionIsCompactedByHand(t *testing.T) {
	gate := fakellm.NewGate()
	var summary, last fakellm.Request
	m := &reader{script: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		last = r
		if r.Chat.Asked() == "wait" {
			return fakellm.Text("waited").Hold(0, gate)
		}
		return fakellm.Text("done")
	}), summary: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		summary = r
		return fakellm.Text("They spoke of lines.")
	})}
	e := newEnv(t, m)
	e.seed("s", 3, 2000)
	e.work()
	c := client.New(e.client, client.Options{Journal: e.journal, TaskQueue: e.cfg.Temporal.TaskQueue})
	res, err := c.Compact(t.Context(), client.CompactInput{Session: "s", Focus: "the blue door"})
	require.NoError(t, err)
	assert.Equal(t, turn.CompactionManual, res.Reason)
	assert.Equal(t, []int64{1, 5}, []int64{res.From, res.To})
	assert.Less(t, res.After, res.Before)
	assert.Contains(t, string(summary.Body), "the blue door")
	again, err := c.Compact(t.Context(), client.CompactInput{Session: "s"})
	require.NoError(t, err)
	assert.True(t, again.Nothing)
	assert.Equal(t, 1, m.asked)
	e.ask("s", "and now?")
	assert.Contains(t, string(last.Body), "They spoke of lines.")
	assert.Contains(t, string(last.Body), "user says line 000000", "the user's words")
	assert.NotContains(t, string(last.Body), "model says line 000000")
	run := e.begin("s", "wait", nil)
	awaitGate(t, gate)
	_, err = c.Compact(t.Context(), client.CompactInput{Session: "s"})
	require.ErrorIs(t, err, client.ErrBusy)
	gate.Release()
	e.result(run)
	_, err = c.Compact(t.Context(), client.CompactInput{Session: "nowhere"})
	require.ErrorIs(t, err, client.ErrNotFound)
}

// TestACompactionIsKept records the history of a compaction by hand.
func TestACompactionIsKept(t *testing.T) {
	m := &reader{script: fakellm.Text("done"), summary: fakellm.Text("They spoke of lines.")}
	e := newEnv(t, m)
	e.seed("s", 3, 2000)
	e.work()
	run, err := e.client.ExecuteWorkflow(t.Context(),
		sdk.StartWorkflowOptions{ID: "compact-kept", TaskQueue: e.cfg.Temporal.TaskQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE},
		workflows.CompactWorkflow, workflows.CompactInput{Session: "s"})
	require.NoError(t, err)
	var res workflows.CompactResult
	require.NoError(t, run.Get(t.Context(), &res))
	assert.Equal(t, turn.CompactionSummarized, res.Method)
	e.keep("v1-compact", "compact-kept", run.GetRunID())
}

// TestALongCompactedSessionCostsLikeAShortOne compares a turn of a session of 2,000 messages, which is compacted, with
// a turn of one of 40 messages. It is not parallel, because it measures what this process allocates.
func TestALongCompactedSessionCostsLikeAShortOne(t *testing.T) {
	const turns = 5
	m := &reader{script: fakellm.Text("done"), summary: fakellm.Text("They talked.")}
	e := newEnv(t, m, compactionSettings(16_000))
	journal := &meter{}
	e.seed("long", 1000, 500)
	e.seed("short", 20, 500)
	e.work(engine.WithJournal(journal.wrap))
	perTurn := map[string]cost{}
	for _, session := range []string{"long", "short", "long", "short"} { // the first turns compact and warm up
		before := journal.cost()
		for range turns {
			e.ask(session, "and now?")
		}
		perTurn[session] = journal.cost().since(before, turns)
	}
	list, err := e.journal.Compactions(t.Context(), "long")
	require.NoError(t, err)
	require.Len(t, list, 1)
	perTurn["long"].atMost(t, perTurn["short"], 2)
}
