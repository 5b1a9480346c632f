package tests

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// compactedOnce checks that a turn was compacted once, that its result counts the summary once, and that the model gave
// as many whole summaries as the journal has paid for.
func compactedOnce(t *testing.T, e *env, m *reader, session string, usage turn.Usage) {
	t.Helper()
	list, err := e.journal.Compactions(t.Context(), session)
	require.NoError(t, err)
	require.Len(t, list, 1)
	whole, tokens := 0, int64(0)
	for _, q := range e.model.Requests() {
		if !q.Finished {
			continue
		}
		tokens += int64(len(q.Body) / 4)
		if isSummary(q) {
			whole++
		}
	}
	assert.Equal(t, 1, whole, "summaries that were paid for")
	assert.Equal(t, tokens, usage.InputTokens)
}

// TestAWorkerIsKilledWhileItCompacts kills the worker while the summary is written, and after it is settled. The
// second worker finds a settled summary and does not ask for another.
func TestAWorkerIsKilledWhileItCompacts(t *testing.T) {
	for name, during := range map[string]bool{"while the summary is written": true, "after it is settled": false} {
		t.Run(name, func(t *testing.T) {
			gate := fakellm.NewGate()
			held := fakellm.Attempts(fakellm.Text("They talked of lines.").Hold(1, gate), fakellm.Text("They talked."))
			m := &reader{window: 9_000, script: held, summary: fakellm.Text("They talked.")}
			if during {
				m.script, m.summary = fakellm.Text("done"), held
			}
			e := newEnv(t, m, compactionSettings(9_000))
			e.seed("s", 20, 1500)
			first := e.process()
			run := e.begin("s", "go on", nil)
			e.reach(gate)
			first.kill()
			e.process()
			res := e.result(run)
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			compactedOnce(t, e, m, "s", res.Usage)
		})
	}
}

// lossy is a journal that loses settlements of compactions, or forgets compactions, which is the mutant.
type lossy struct {
	engine.Journal
	before  atomic.Int64
	forgets bool
}

func (l *lossy) SettleCompaction(ctx context.Context, in journal.SettleCompaction) (turn.Compaction, error) {
	if l.before.Add(-1) >= 0 {
		return turn.Compaction{}, turn.NewError(turn.CodeJournalUnavailable, errors.New("lost"), "the journal is away")
	}
	return l.Journal.SettleCompaction(ctx, in)
}

func (l *lossy) PromptContext(ctx context.Context, in journal.PromptContextInput) (journal.PromptContext, error) {
	in.Compacted = in.Compacted && !l.forgets
	return l.Journal.PromptContext(ctx, in)
}

// TestASettledSummaryIsNotPaidForAgain loses the settlement, and the inference that follows it. The mutant,
// which forgets compactions, shows that the check would notice.
func TestASettledSummaryIsNotPaidForAgain(t *testing.T) {
	failing := fakellm.Attempts(fakellm.Status(500, "server_error", "overloaded"), fakellm.Text("done"))
	for name, c := range map[string]struct {
		journal   *lossy
		script    fakellm.Script
		summaries int
	}{
		"settlement lost":   {&lossy{}, fakellm.Text("done"), 1},
		"inference retried": {&lossy{}, failing, 1},
		"mutant: forgotten": {&lossy{forgets: true}, failing, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := &reader{window: 9_000, script: c.script, summary: fakellm.Text("They talked.")}
			e := newEnv(t, m, compactionSettings(9_000))
			e.seed("s", 20, 1500)
			if name == "settlement lost" {
				c.journal.before.Store(2)
			}
			e.work(engine.WithJournal(func(j engine.Journal) engine.Journal {
				c.journal.Journal = j
				return c.journal
			}))
			res := e.ask("s", "go on")
			require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
			assert.Equal(t, c.summaries, m.asked)
			if c.summaries == 1 && name != "inference retried" {
				compactedOnce(t, e, m, "s", res.Usage)
			}
		})
	}
}

// TestARateLimitedSummaryIsRetried checks that a failure of the summary that may pass is retried as the inference's,
// and does not cut the conversation.
func TestARateLimitedSummaryIsRetried(t *testing.T) {
	m := &reader{window: 9_000, script: fakellm.Text("done"), summary: fakellm.Attempts(
		fakellm.Status(429, "rate_limit", "slow down").RetryAfter("0"), fakellm.Text("They talked."))}
	e := newEnv(t, m, compactionSettings(9_000))
	e.seed("s", 20, 1500)
	e.work()
	res := e.ask("s", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	made := e.compactedEvents(res.Turn)
	require.Len(t, made, 1)
	assert.Equal(t, turn.CompactionSummarized, made[0].Method)
	assert.Equal(t, 2, m.asked)
}

// TestAPaidSummaryThatLeadsToNothingIsCounted lets the first summary be empty and the second one fail with an error
// that is retried: the turn's usage has all three summaries that the provider has answered, and no reservation is left.
func TestAPaidSummaryThatLeadsToNothingIsCounted(t *testing.T) {
	t.Parallel()
	m := &reader{script: fakellm.Text("done")}
	replies := []fakellm.Script{fakellm.Text(" "), fakellm.Status(429, "rate_limit_exceeded", "slow down"),
		fakellm.Text("They talked.")}
	m.summary = fakellm.Func(func(q fakellm.Request) fakellm.Reply { return replies[min(m.asked, 3)-1].Reply(q) })
	e := newEnv(t, m, compactionSettings(9_000), priced, func(c *config.Config) { c.Budget.SessionUSD = ptr(100.0) })
	e.seed("s", 20, 1500)
	e.work()
	res := e.ask("s", "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	var input int64
	for _, q := range e.model.Requests() {
		if q.Finished {
			input += int64(len(q.Body) / 4)
		}
	}
	used, err := e.journal.TurnUsage(t.Context(), res.Turn)
	require.NoError(t, err)
	assert.Equal(t, input, res.Usage.InputTokens)
	assert.Equal(t, input, used.InputTokens)
	assert.False(t, used.Estimated)
	assert.Equal(t, res.Usage.Cost, used.Cost)
	spent, err := e.journal.SessionUsage(t.Context(), "s")
	require.NoError(t, err)
	assert.Equal(t, used.Cost, spent.Cost)
}

// TestACutSummaryIsCounted cuts the stream of the first summary: the provider bills it, too.
func TestACutSummaryIsCounted(t *testing.T) {
	t.Parallel()
	m := &reader{script: fakellm.Text("done")}
	replies := []fakellm.Script{fakellm.Text("They talked about this and that.").CutAfter(3), fakellm.Text("They talked.")}
	m.summary = fakellm.Func(func(q fakellm.Request) fakellm.Reply { return replies[min(m.asked, 2)-1].Reply(q) })
	e := newEnv(t, m, compactionSettings(9_000), priced, func(c *config.Config) { c.Runtime.MaxTokens = 100_000 })
	e.seed(session(t), 20, 1500)
	e.work()
	res := e.ask(session(t), "go on")
	require.Equal(t, turn.FinishAnswered, res.FinishReason, res.Message)
	var input int64
	for _, q := range e.model.Requests() {
		input += int64(len(q.Body) / 4)
	}
	require.Len(t, e.model.Requests(), 3)
	assert.True(t, res.Usage.Estimated)
	assert.GreaterOrEqual(t, res.Usage.InputTokens, input)
	used, err := e.journal.TurnUsage(t.Context(), res.Turn)
	require.NoError(t, err)
	assert.Equal(t, used, res.Usage)
}

// TestACompactionKeepsToTheBudget checks that a compaction by hand sends nothing that the session cannot pay.
func TestACompactionKeepsToTheBudget(t *testing.T) {
	t.Parallel()
	m := &reader{script: fakellm.Text("done"), summary: fakellm.Text("They talked.")}
	e := newEnv(t, m, priced, func(c *config.Config) { c.Budget.SessionUSD = ptr(0.000001) })
	e.seed("s", 3, 2000)
	e.work()
	c := client.New(e.client, client.Options{Journal: e.journal, TaskQueue: e.cfg.Temporal.TaskQueue})
	_, err := c.Compact(t.Context(), client.CompactInput{Session: "s"})
	require.ErrorContains(t, err, "session_usd")
	assert.Zero(t, m.asked)
}
