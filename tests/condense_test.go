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
	return len(r.Chat.Messages) > 0 && strings.HasPrefix(r.Chat.Messages[0].Content, "You condense")
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

// condensing configures a context window of so many tokens.
func condensing(tokens int64) func(*config.Config) {
	return func(c *config.Config) { c.LLM.ContextTokens = tokens }
}

// condensedChunks returns the reports of a turn's condensations.
func (r *env) condensedChunks(turnID string) (list []turn.CondensedChunk) {
	r.t.Helper()
	chunks, err := r.store.Chunks(r.t.Context(), turnID, -1, 100_000)
	require.NoError(r.t, err)
	for _, c := range chunks {
		if c.Kind == turn.ChunkCondensed {
			var data turn.CondensedChunk
			require.NoError(r.t, json.Unmarshal(c.Data, &data))
			list = append(list, data)
		}
	}
	return list
}

// TestALongTurnIsCondensed checks a turn of a hundred hops on a transcript of 0.8 MB: no prompt exceeds the context
// window, each extends the one before byte for byte until the next condensation, and the history stays small.
func TestALongTurnIsCondensed(t *testing.T) {
	const window = 32_000
	m := &reader{script: hops("local_quick_page", hopsLong), summary: fakellm.Text("They read a book."), window: window}
	r := newEnv(t, m, condensing(window))
	r.seed("long", 160, 2500)
	r.work(withPage()...)
	run := r.begin("long", "Read the whole book.", raised(hopsLong))
	res := r.result(run)
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	made := r.condensedChunks(res.Turn)
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
	summaries, err := r.store.Condensations(t.Context(), "long")
	require.NoError(t, err)
	for _, c := range summaries {
		tokens += c.Usage.InputTokens
	}
	assert.Equal(t, tokens, res.Usage.InputTokens, "the turn counts its summaries")
	events := r.events("long", run.GetRunID())
	t.Logf("history: %d bytes, condensations: %d", historyBytes(events), len(made))
	assert.LessOrEqual(t, historyBytes(events), 400_000)
}

// TestCondensedPromptsAreCached checks the part of a prompt that a provider finds in its cache ten steps after a
// condensation.
func TestCondensedPromptsAreCached(t *testing.T) {
	const window = 128_000
	m := &reader{script: hops("local_quick_page", 11), summary: fakellm.Text("They talked."), window: window}
	r := newEnv(t, m, condensing(window))
	r.seed("s", 160, 2500)
	r.work(withPage()...)
	res := r.result(r.begin("s", "Read.", raised(11)))
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	require.Len(t, r.condensedChunks(res.Turn), 1)
	tenth := m.prompts[9]
	t.Logf("cached at step 10: %d of %d bytes", tenth.cached, tenth.bytes)
	assert.GreaterOrEqual(t, float64(tenth.cached), 0.95*float64(tenth.bytes))
}

// TestPlantedFactsSurviveACondensation plants thirty facts: ten in user messages, ten in answers, and ten in tool
// outputs. Those of the user are in the next prompt word for word; outputs are named, and read_artifact finds them.
func TestPlantedFactsSurviveACondensation(t *testing.T) {
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
	r := newEnv(t, m, condensing(12_000))
	r.work(engine.WithTool("page", "Reads a page.", output, engine.Risk(turn.RiskLow)))
	for i := range 10 {
		r.ask("facts", fmt.Sprintf("Remember %d: %s", i, fact("owner", i)))
	}
	list, err := r.store.Condensations(t.Context(), "facts")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	r.result(r.begin("facts", "What do you know?", nil))
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
	turns, err := r.store.Turns(t.Context(), "facts")
	require.NoError(t, err)
	require.NotEmpty(t, c.Kept.Refs)
	for _, ref := range c.Kept.Refs {
		assert.Contains(t, prompt, ref.Artifact)
		_, b, err := r.store.Artifact(t.Context(), turns[len(turns)-1].ID, ref.Artifact)
		require.NoError(t, err)
		assert.Contains(t, string(b), "the code of vault")
	}
}

// TestAHugeResultIsPrunedInMidTurn checks that a prompt is condensed when a single result would exceed the context
// window, without a model's help.
func TestAHugeResultIsPrunedInMidTurn(t *testing.T) {
	const window = 16_000
	script := fakellm.Steps(fakellm.Calls(fakellm.ToolCall{Name: "local_big", Arguments: `{"n":1}`},
		fakellm.ToolCall{Name: "local_big", Arguments: `{"n":2}`}), fakellm.Text("done"))
	m := &reader{window: window, summary: fakellm.Text("unused"), script: script}
	r := newEnv(t, m, condensing(window))
	r.work(engine.WithTool("big", "Returns a lot.", func(_ context.Context, in pageIn) (string, error) {
		return strings.Repeat(fmt.Sprintf("line of %d. ", in.N), 4000), nil
	}, engine.Risk(turn.RiskLow)))
	run := r.begin("huge", "go", nil)
	res := r.result(run)
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	r.keep("v1-condensed", "huge", run.GetRunID())
	made := r.condensedChunks(res.Turn)
	require.Len(t, made, 1)
	assert.Equal(t, turn.CondensePruned, made[0].Method)
	assert.Zero(t, m.asked)
}

// TestAnOverflowCondensesOnce checks a model whose context window is not known: the prompt that it refuses is condensed
// once, and if that does not help, the turn fails with the code.
func TestAnOverflowCondensesOnce(t *testing.T) {
	m := &reader{window: 9_000, summary: fakellm.Text("They talked."), script: fakellm.Text("done")}
	r := newEnv(t, m)
	r.seed("overflow", 20, 1500)
	r.work()
	res := r.ask("overflow", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	made := r.condensedChunks(res.Turn)
	require.Len(t, made, 1)
	assert.Equal(t, turn.CondenseOverflow, made[0].Reason)
	m.window = 100
	e, _ := r.failure(r.begin("overflow", "go on", nil))
	assert.Equal(t, string(turn.CodeContextOverflow), e.Type())
}

// TestACondensationNeverFailsATurn checks that a summary model that always fails is asked twice, and that the turn then
// goes on with what is kept mechanically.
func TestACondensationNeverFailsATurn(t *testing.T) {
	for name, summary := range map[string]fakellm.Script{
		"refused": fakellm.Status(400, "invalid_request_error", "no such model"), "empty": fakellm.Text(" "),
		"filtered": fakellm.Text("half").Finish("content_filter"),
	} {
		t.Run(name, func(t *testing.T) {
			m := &reader{window: 9_000, summary: summary, script: fakellm.Text("done")}
			r := newEnv(t, m, condensing(9_000))
			r.seed("s", 20, 1500)
			r.work()
			res := r.ask("s", "Remember the blue door.")
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			made := r.condensedChunks(res.Turn)
			require.Len(t, made, 1)
			assert.Equal(t, turn.CondenseTruncated, made[0].Method)
			assert.NotEmpty(t, made[0].Warning)
			assert.Equal(t, 2, m.asked)
		})
	}
}

// TestOffMeansOff checks that nothing is condensed if the operator has turned it off.
func TestOffMeansOff(t *testing.T) {
	m := &reader{summary: fakellm.Text("They talked."), script: fakellm.Text("done")}
	r := newEnv(t, m, condensing(2_000), func(c *config.Config) { c.Prompt.Condense = config.CondenseOff })
	r.seed("off", 40, 1500)
	r.work()
	res := r.ask("off", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason)
	assert.Empty(t, r.condensedChunks(res.Turn))
	assert.Zero(t, m.asked)
}

// TestARewindUndoesACondensation checks the prompts of forks before and after a condensation, and that a tainted or
// pruned past stays what it is.
func TestARewindUndoesACondensation(t *testing.T) {
	var last fakellm.Request
	m := &reader{summary: fakellm.Text("They talked."), script: fakellm.Func(func(r fakellm.Request) fakellm.Reply {
		last = r
		return fakellm.Text("done")
	})}
	r := newEnv(t, m, condensing(8_000))
	r.seed("s", 20, 1500)
	r.work()
	r.ask("s", "go on")
	head, err := r.store.Session(t.Context(), "s")
	require.NoError(t, err)
	condensed := func() bool {
		return slices.ContainsFunc(last.Chat.Messages, func(m fakellm.Message) bool {
			return strings.HasPrefix(m.Content, "[Messages 1 to ")
		})
	}
	require.True(t, condensed())
	for at, want := range map[int64]bool{4: false, head.Head.Seq: true} {
		id := fmt.Sprint("fork-", at)
		_, err := r.store.Fork(t.Context(), journal.ForkInput{Session: "s", At: at, ID: id})
		require.NoError(t, err)
		asked := m.asked
		r.ask(id, "and now?")
		assert.Equal(t, want, condensed(), "a fork at %d", at)
		assert.Equal(t, asked, m.asked, "nothing is summarized twice")
	}
}

// TestASessionIsCompactedByHand checks that a user can condense a session whose turn has ended, that the worker asks
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
	r := newEnv(t, m)
	r.seed("s", 3, 2000)
	r.work()
	c := client.New(r.client, client.Options{Journal: r.store, TaskQueue: r.cfg.Temporal.TaskQueue})
	res, err := c.Compact(t.Context(), client.CompactInput{Session: "s", Focus: "the blue door"})
	require.NoError(t, err)
	assert.Equal(t, turn.CondenseManual, res.Reason)
	assert.Equal(t, []int64{1, 5}, []int64{res.From, res.To})
	assert.Less(t, res.After, res.Before)
	assert.Contains(t, string(summary.Body), "the blue door")
	again, err := c.Compact(t.Context(), client.CompactInput{Session: "s"})
	require.NoError(t, err)
	assert.True(t, again.Nothing)
	assert.Equal(t, 1, m.asked)
	r.ask("s", "and now?")
	assert.Contains(t, string(last.Body), "They spoke of lines.")
	assert.Contains(t, string(last.Body), "user says line 000000", "the user's words")
	assert.NotContains(t, string(last.Body), "model says line 000000")
	run := r.begin("s", "wait", nil)
	awaitGate(t, gate)
	_, err = c.Compact(t.Context(), client.CompactInput{Session: "s"})
	require.ErrorIs(t, err, client.ErrBusy)
	gate.Release()
	r.result(run)
	_, err = c.Compact(t.Context(), client.CompactInput{Session: "nowhere"})
	require.ErrorIs(t, err, client.ErrNotFound)
}

// TestACompactionIsKept records the history of a condensation by hand.
func TestACompactionIsKept(t *testing.T) {
	m := &reader{script: fakellm.Text("done"), summary: fakellm.Text("They spoke of lines.")}
	r := newEnv(t, m)
	r.seed("s", 3, 2000)
	r.work()
	run, err := r.client.ExecuteWorkflow(t.Context(),
		sdk.StartWorkflowOptions{ID: "compact-kept", TaskQueue: r.cfg.Temporal.TaskQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE},
		workflows.CompactWorkflow, workflows.CompactInput{Session: "s"})
	require.NoError(t, err)
	var res workflows.CompactResult
	require.NoError(t, run.Get(t.Context(), &res))
	assert.Equal(t, turn.CondenseSummarized, res.Method)
	r.keep("v1-compact", "compact-kept", run.GetRunID())
}

// TestALongCondensedSessionCostsLikeAShortOne compares a turn of a session of 2,000 messages, which is condensed, with
// a turn of one of 40 messages. It is not parallel, because it measures what this process allocates.
func TestALongCondensedSessionCostsLikeAShortOne(t *testing.T) {
	const turns = 5
	m := &reader{script: fakellm.Text("done"), summary: fakellm.Text("They talked.")}
	r := newEnv(t, m, condensing(16_000))
	journal := &meter{}
	r.seed("long", 1000, 500)
	r.seed("short", 20, 500)
	r.work(engine.WithJournal(journal.wrap))
	perTurn := map[string]cost{}
	for _, session := range []string{"long", "short", "long", "short"} { // the first turns condense and warm up
		before := journal.cost()
		for range turns {
			r.ask(session, "and now?")
		}
		perTurn[session] = journal.cost().since(before, turns)
	}
	list, err := r.store.Condensations(t.Context(), "long")
	require.NoError(t, err)
	require.Len(t, list, 1)
	perTurn["long"].atMost(t, perTurn["short"], 2)
}
