package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// priced gives the scripted model a price: 1 dollar per million input tokens, 0.1 from the cache, and 10 for output.
func priced(c *config.Config) {
	c.Models = append(c.Models, config.Model{Name: "openai:scripted", MaxOutputTokens: 500,
		InputPrice: ptr(1.0), CachedInputPrice: ptr(0.1), OutputPrice: ptr(10.0)})
}

const microdollar = turn.Dollar / 1_000_000

func TestATurnEndsAtItsMaxCost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Call("local_quick_echo", `{"text":"a"}`).WithText("Looking.").Usage(3000, 100, 0), priced)
	e.work(withEcho()...)
	run := e.begin(session(t), "Look.", &workflows.LimitsRequest{MaxCostUSD: ptr(0.01)})
	res := e.result(run)
	assert.Equal(t, turn.StateCompleted, res.State)
	assert.Equal(t, turn.FinishMaxCost, res.FinishReason)
	assert.Equal(t, turn.CodeLimitExceeded, res.Code)
	assert.Equal(t, "Looking.", res.Answer)
	assert.Contains(t, res.Message, "max_cost_usd")
	assert.Contains(t, res.Message, "raise the limit or ask again")
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.Equal(t, turn.Usage{InputTokens: 6000, OutputTokens: 200, Cost: 8000 * microdollar}, res.Usage)
	assert.Equal(t, 500, requests[0].Chat.MaxTokens+requests[0].Chat.MaxCompletionTokens, "the model's own limit")
	second := requests[1].Chat.MaxTokens + requests[1].Chat.MaxCompletionTokens
	assert.Less(t, second, 500, "what is left of the ceiling")
	assert.GreaterOrEqual(t, second, 64)
	rows, err := e.journal.Usage(t.Context(), journal.UsageByModel, time.Time{})
	require.NoError(t, err)
	assert.Equal(t, []journal.UsageRow{{Key: "openai/scripted", Attempts: 2, Turns: 1, Usage: res.Usage}}, rows)
	e.keep("v1-limit-max_cost_usd", session(t), res.Turn)
	e.goesOn(session(t))
}

func TestATurnEndsAtItsMaxTokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Call("local_quick_echo", `{"text":"a"}`).WithText("Looking.").Usage(3000, 100, 0), priced)
	e.work(withEcho()...)
	res := e.result(e.begin(session(t), "Look.", &workflows.LimitsRequest{MaxTokens: ptr(int64(7000))}))
	assert.Equal(t, turn.FinishMaxTokens, res.FinishReason)
	assert.Contains(t, res.Message, "max_tokens is 7000 tokens, of which 6200 are used")
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.Equal(t, 500, requests[0].Chat.MaxTokens+requests[0].Chat.MaxCompletionTokens, "the model's own limit")
	second := requests[1].Chat.MaxTokens + requests[1].Chat.MaxCompletionTokens
	assert.Less(t, second, 500, "what is left of the limit")
	assert.GreaterOrEqual(t, second, 64)
}

func TestAMaxCostNeedsAPrice(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("never"))
	e.work()
	app, _ := e.failure(e.begin(session(t), "Look.", &workflows.LimitsRequest{MaxCostUSD: ptr(0.01)}))
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
	assert.Contains(t, app.Message(), "price")
	assert.Empty(t, e.model.Requests())
	res := e.ask(session(t)+"-unlimited", "Look.")
	assert.True(t, res.Usage.Unpriced, "an unknown price is not 0")
}

func TestAFailedAttemptIsPaid(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Attempts(fakellm.Text("This is cut off in the middle.").CutAfter(3),
		fakellm.Text("Whole.").Usage(20, 5, 15)), priced)
	e.work()
	res := e.ask(session(t), "Look.")
	assert.Equal(t, "Whole.", res.Answer)
	assert.True(t, res.Usage.Estimated)
	good := turn.Usage{InputTokens: 20, OutputTokens: 5, CachedTokens: 15, Cost: 565 * microdollar / 10}
	assert.Greater(t, res.Usage.Cost, good.Cost)
	assert.Greater(t, res.Usage.OutputTokens, good.OutputTokens)
	record, err := e.journal.Turn(t.Context(), res.Turn)
	require.NoError(t, err)
	assert.Equal(t, res.Usage, record.Usage)
	rows, err := e.journal.Usage(t.Context(), journal.UsageBySession, record.StartedAt)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, 2, rows[0].Attempts)
	assert.Equal(t, res.Usage, rows[0].Usage)
}

func TestABudgetEndsASession(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("Done.").Usage(3000, 100, 0), priced,
		func(c *config.Config) { c.Budget.SessionUSD = ptr(0.0045) })
	e.work()
	assert.Equal(t, turn.FinishAnswered, e.ask(session(t), "One.").FinishReason)
	app, _ := e.failure(e.begin(session(t), "Two.", nil))
	assert.Equal(t, string(turn.CodeBudgetUsedUp), app.Type())
	assert.Contains(t, app.Message(), "session_usd")
	assert.Equal(t, turn.FinishAnswered, e.ask(session(t)+"-other", "One.").FinishReason)
	assert.Len(t, e.model.Requests(), 2)
}

// TestABudgetCountsSubagents lets a subagent use what the budget of its caller's session has left.
func TestABudgetCountsSubagents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("task", fakellm.Text("Done.").Usage(3000, 100, 0)),
		fakellm.When("", fakellm.Calls(callAgent("a", "task")).Usage(100, 10, 0))), priced, agents,
		func(c *config.Config) { c.Budget.SessionUSD = ptr(0.015) })
	e.work()
	var res workflows.Result
	_ = e.begin(session(t), "One.", nil).Get(t.Context(), &res) // the budget or the errors of the calls end it
	rows, err := e.journal.Usage(t.Context(), journal.UsageBySession, time.Time{})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	assert.Equal(t, session(t), rows[0].Key)
	assert.Greater(t, rows[0].Turns, 1)
	assert.LessOrEqual(t, rows[0].Usage.Cost, 15_000*microdollar)
	assert.Greater(t, rows[0].Usage.Cost, 8000*microdollar)
}

func TestABudgetOfNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Text("never"), priced, func(c *config.Config) { c.Budget.TenantUSDPerDay = ptr(0.0) })
	e.work()
	app, _ := e.failure(e.begin(session(t), "One.", nil))
	assert.Equal(t, string(turn.CodeBudgetUsedUp), app.Type())
	assert.Empty(t, e.model.Requests())
}

func TestAStoppedInferenceIsPaid(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	defer gate.Release()
	e := newEnv(t, fakellm.Text("This takes a long time to say.").Hold(4, gate), priced)
	e.work()
	run := e.begin(session(t), "Look.", nil)
	<-gate.Reached()
	require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
	var res workflows.Result
	require.Error(t, run.Get(t.Context(), &res))
	require.Eventually(t, func() bool { // the activity learns of the stop later than the turn
		used, err := e.journal.TurnUsage(t.Context(), run.GetRunID())
		return err == nil && used.Estimated && used.Cost > 0
	}, within, 20*time.Millisecond)
}
