package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	peopleclient "github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// isAnswer is in the message that brings the answer of a subagent in the background.
const isAnswer = "which you have called in the background"

// ofMessage returns the turns of a session and of its subagents, with the configs that they began with.
func (e *env) ofMessage(session string) (turns []journal.TurnRecord, configs []turn.Config) {
	e.t.Helper()
	all, err := e.journal.Sessions(e.t.Context(), 1000)
	require.NoError(e.t, err)
	for _, s := range all {
		if s.ID != session && !strings.HasPrefix(s.ID, turn.AgentTools) {
			continue
		}
		list, err := e.journal.Turns(e.t.Context(), s.ID)
		require.NoError(e.t, err)
		for _, rec := range list {
			raw, err := e.journal.TurnConfig(e.t.Context(), rec.ID)
			require.NoError(e.t, err)
			var cfg turn.Config
			require.NoError(e.t, json.Unmarshal(raw.Config, &cfg))
			turns, configs = append(turns, rec), append(configs, cfg)
		}
	}
	return turns, configs
}

// subagents returns the sessions of the subagents in the background that a session's turns have called.
func (e *env) subagents(session string) (names []string) {
	turns, err := e.journal.Turns(e.t.Context(), session)
	if err != nil {
		return nil
	}
	for _, rec := range turns {
		calls, err := e.journal.Calls(e.t.Context(), rec.ID)
		require.NoError(e.t, err)
		for _, c := range calls {
			if a, err := e.journal.Subagent(e.t.Context(), rec.ID, c.Call.ID); err == nil && a.Background {
				names = append(names, turn.SubagentSession(rec.ID, c.Call.ID))
			}
		}
	}
	return names
}

// awaitAnswers waits until the answer of each subagent in the background has reached a turn, or is kept for one, and no
// turn of the session runs.
func (e *env) awaitAnswers(session string) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		for _, name := range e.subagents(session) {
			if !e.arrived(session, name) {
				return false
			}
		}
		s, err := e.journal.Session(e.t.Context(), session)
		running, rerr := e.people().Running(e.t.Context(), session)
		return err == nil && rerr == nil && s.LastTurn.State.Terminal() && !running
	}, within, 20*time.Millisecond)
}

func (e *env) arrived(session, subagent string) bool {
	if _, err := e.journal.Delivered(e.t.Context(), session, turn.SubagentAnswerID(subagent)); err == nil {
		return true
	}
	kept, err := e.journal.AnswerKept(e.t.Context(), session, turn.SubagentAnswerID(subagent))
	return err == nil && kept
}

// insatiable calls a subagent in the background in every turn.
var insatiable = fakellm.Cases(
	fakellm.When(isAnswer, fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Again."))),
	fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Begun."))),
	fakellm.When("task", fakellm.Text("Done.")),
	fakellm.When("", fakellm.Text("I see.")))

// TestAnswersOfSubagentsKeepToTheMessagesLimits lets a model call a subagent in every turn, also in those that answers
// begin. All together use no more than the limits of the user's message.
func TestAnswersOfSubagentsKeepToTheMessagesLimits(t *testing.T) {
	t.Parallel()
	for _, limits := range []struct{ steps, calls int }{{3, 1}, {12, 4}, {30, 30}} {
		t.Run(fmt.Sprint(limits.steps), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, insatiable, agents)
			e.work()
			run := e.begin(session(t), "errand of the user",
				&workflows.LimitsRequest{MaxSteps: &limits.steps, MaxToolCalls: &limits.calls, TurnTimeout: ptr("1h")})
			assert.Equal(t, "Begun.", e.ended(run.GetRunID()).Answer)
			e.awaitAnswers(session(t))
			turns, configs := e.ofMessage(session(t))
			calls, generations := 0, 0
			for i, rec := range turns {
				calls += rec.Calls
				generations = max(generations, configs[i].Answers)
			}
			assert.LessOrEqual(t, len(e.model.Requests()), limits.steps)
			assert.LessOrEqual(t, calls, limits.calls)
			assert.LessOrEqual(t, generations, e.cfg.Tuning.AgentDepth)
			if limits.steps > 3 {
				assert.Positive(t, generations, "answers begin turns while something is left")
			}
		})
	}
}

// TestAnAnswerWithoutLimitsIsKeptForTheNextTurn answers a message that has nothing left. The answer begins no turn, and
// the next turn of the user gets it, once.
func TestAnAnswerWithoutLimitsIsKeptForTheNextTurn(t *testing.T) {
	t.Parallel()
	e := newEnv(t, insatiable, agents)
	e.work()
	run := e.begin(session(t), "errand of the user", &workflows.LimitsRequest{MaxSteps: ptr(3), MaxToolCalls: ptr(1)})
	e.ended(run.GetRunID())
	e.awaitAnswers(session(t))
	require.Len(t, e.model.Requests(), 3, "the turn and its subagent")
	its := turn.SubagentSession(run.GetRunID(), "1.0")
	e.keep("v1-subagent-kept-delivery", turn.SubagentAnswerID(its), "")
	e.model.SetScript(fakellm.Text("I see."))
	for _, text := range []string{"And now?", "Anything else?"} {
		assert.Equal(t, "I see.", e.ask(session(t), text).Answer)
	}
	messages, _ := e.transcript(session(t))
	told := 0
	for _, m := range messages {
		if m.ID == turn.SubagentAnswerID(its) {
			told++
			assert.Contains(t, m.Text, "Done.")
		}
	}
	assert.Equal(t, 1, told)
	assert.Contains(t, string(e.model.Requests()[3].Body), isAnswer)
	forged := turn.SubagentAnswerID(turn.SubagentSession(run.GetRunID(), "9.9"))
	app, _ := e.failure(e.start(session(t), workflows.Input{Message: &workflows.Message{ID: forged, Text: "hello"}}))
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
}

// TestAnAnswersTurnIsNarrowedLikeItsMessage narrows a message to some tools, or lets it work by a plan. The turn that
// the answer of its subagent begins has no other tools, and needs a plan as well.
func TestAnAnswersTurnIsNarrowedLikeItsMessage(t *testing.T) {
	t.Parallel()
	errand := fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Begun.")))
	for name, tc := range map[string]struct {
		message workflows.Message
		caller  fakellm.Case
		allowed int // requests that the user allows before the answer's turn
	}{
		"tools": {message: workflows.Message{Tools: []string{"agent/a", "local/read_file"}}, caller: errand},
		"plan": {message: workflows.Message{Plan: plan.ConfirmStep}, allowed: 2, // the plan, and the agent, which no step names
			caller: fakellm.When("errand of the user",
				fakellm.Steps(propose("call the agent"), fakellm.Calls(inBackground("a", "task")), reflects(1, plan.Conclude),
					fakellm.Text("Begun.")))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			tries := fakellm.Steps(set("unasked"), fakellm.Text("I could not."))
			e := newEnv(t, fakellm.Cases(fakellm.When(isAnswer, tries), tc.caller, fakellm.When("task", fakellm.Text("Done."))),
				agents, func(c *config.Config) { c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 40, 40 })
			e.work(setting(&effects))
			tc.message.Text = "errand of the user"
			run := e.start(session(t), workflows.Input{Message: &tc.message, Limits: &workflows.LimitsRequest{
				TurnTimeout: ptr("10m")}})
			for i := range tc.allowed {
				w := e.waits(run.GetRunID(), i+1)[i]
				_, err := e.people().Approve(t.Context(), peopleclient.DecideInput{Session: session(t), Request: w.ID,
					ArgumentsHash: w.ArgumentsHash, By: "ann"})
				require.NoError(t, err)
			}
			e.ended(run.GetRunID())
			e.awaitAnswers(session(t))
			rec := e.answered(session(t), turn.SubagentAnswerID(e.subagents(session(t))[0]))
			require.NotEqual(t, run.GetRunID(), rec.ID, "a turn began with the answer")
			assert.Zero(t, effects.Load(), "the tool was not called")
			_, configs := e.ofMessage(session(t))
			root, err := e.journal.TurnConfig(t.Context(), run.GetRunID())
			require.NoError(t, err)
			var has turn.Config
			require.NoError(t, json.Unmarshal(root.Config, &has))
			for _, cfg := range configs {
				if cfg.Answers == 0 {
					continue
				}
				for _, tool := range cfg.Tools {
					_, ok := has.Find(tool.ID)
					assert.True(t, ok, tool.ID)
				}
			}
		})
	}
}

// TestAStopEndsWhatAnEarlierTurnHasBegun stops a session whose turn has ended, and one whose running turn is another
// one than the turn that called the subagent. Nothing goes on.
func TestAStopEndsWhatAnEarlierTurnHasBegun(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"idle", "running", "web-ui"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			gate, own := fakellm.NewGate(), fakellm.NewGate()
			e := newEnv(t, fakellm.Cases(
				fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Begun."))),
				fakellm.When("task", fakellm.Text("Done.").Hold(0, gate)),
				fakellm.When("later", fakellm.Text("Later.").Hold(0, own)),
				fakellm.When("", fakellm.Text("I see."))), agents)
			e.work()
			run := e.begin(session(t), "errand of the user", nil)
			awaitGate(t, gate)
			e.ended(run.GetRunID())
			e.result(run)
			if how != "idle" {
				later := e.begin(session(t), "later", nil)
				awaitGate(t, own)
				if how == "web-ui" {
					require.NoError(t, e.client.CancelWorkflow(t.Context(), later.GetID(), ""))
				}
				defer func() { assert.Equal(t, turn.StateCancelled, e.ended(later.GetRunID()).State) }()
			}
			if how != "web-ui" {
				require.NoError(t, e.people().Stop(t.Context(), session(t)))
			}
			its := turn.SubagentSession(run.GetRunID(), "1.0")
			require.Eventually(t, func() bool {
				s, err := e.journal.Session(t.Context(), its)
				return err == nil && s.LastTurn.State == turn.StateCancelled
			}, within, 10*time.Millisecond, "the subagent is stopped")
			require.Error(t, e.client.GetWorkflow(t.Context(), workflows.BackgroundID("", its), "").Get(t.Context(), nil))
			_, err := e.journal.Delivered(t.Context(), session(t), turn.SubagentAnswerID(its))
			require.ErrorIs(t, err, journal.ErrNotFound, "its end begins no turn")
			if how == "idle" {
				require.ErrorIs(t, e.people().Stop(t.Context(), session(t)), peopleclient.ErrNotRunning)
			}
		})
	}
}
