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
func (r *env) ofMessage(session string) (turns []journal.TurnRecord, configs []turn.Config) {
	r.t.Helper()
	all, err := r.store.Sessions(r.t.Context(), 1000)
	require.NoError(r.t, err)
	for _, s := range all {
		if s.ID != session && !strings.HasPrefix(s.ID, turn.AgentTools) {
			continue
		}
		list, err := r.store.Turns(r.t.Context(), s.ID)
		require.NoError(r.t, err)
		for _, rec := range list {
			raw, err := r.store.TurnConfig(r.t.Context(), rec.ID)
			require.NoError(r.t, err)
			var cfg turn.Config
			require.NoError(r.t, json.Unmarshal(raw.Config, &cfg))
			turns, configs = append(turns, rec), append(configs, cfg)
		}
	}
	return turns, configs
}

// subagents returns the sessions of the subagents in the background that a session's turns have called.
func (r *env) subagents(session string) (names []string) {
	turns, err := r.store.Turns(r.t.Context(), session)
	if err != nil {
		return nil
	}
	for _, rec := range turns {
		calls, err := r.store.Calls(r.t.Context(), rec.ID)
		require.NoError(r.t, err)
		for _, c := range calls {
			if a, err := r.store.Subagent(r.t.Context(), rec.ID, c.Call.ID); err == nil && a.Background {
				names = append(names, turn.ChildSession(rec.ID, c.Call.ID))
			}
		}
	}
	return names
}

// awaitAnswers waits until the answer of each subagent in the background has reached a turn, or is kept for one, and no
// turn of the session runs.
func (r *env) awaitAnswers(session string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for _, name := range r.subagents(session) {
			if !r.arrived(session, name) {
				return false
			}
		}
		s, err := r.store.Session(r.t.Context(), session)
		running, rerr := r.people().Running(r.t.Context(), session)
		return err == nil && rerr == nil && s.LastTurn.State.Terminal() && !running
	}, within, 20*time.Millisecond)
}

func (r *env) arrived(session, subagent string) bool {
	if _, err := r.store.Delivered(r.t.Context(), session, turn.SubagentAnswerID(subagent)); err == nil {
		return true
	}
	kept, err := r.store.AnswerKept(r.t.Context(), session, turn.SubagentAnswerID(subagent))
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
			r := newEnv(t, insatiable, agents)
			r.work()
			run := r.begin(session(t), "errand of the user",
				&workflows.LimitsRequest{MaxSteps: &limits.steps, MaxToolCalls: &limits.calls, TurnTimeout: ptr("1h")})
			assert.Equal(t, "Begun.", r.ended(run.GetRunID()).Answer)
			r.awaitAnswers(session(t))
			turns, configs := r.ofMessage(session(t))
			calls, generations := 0, 0
			for i, rec := range turns {
				calls += rec.Calls
				generations = max(generations, configs[i].Answers)
			}
			assert.LessOrEqual(t, len(r.model.Requests()), limits.steps)
			assert.LessOrEqual(t, calls, limits.calls)
			assert.LessOrEqual(t, generations, r.cfg.Runtime.MaxAgentDepth)
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
	r := newEnv(t, insatiable, agents)
	r.work()
	run := r.begin(session(t), "errand of the user", &workflows.LimitsRequest{MaxSteps: ptr(3), MaxToolCalls: ptr(1)})
	r.ended(run.GetRunID())
	r.awaitAnswers(session(t))
	require.Len(t, r.model.Requests(), 3, "the turn and its subagent")
	its := turn.ChildSession(run.GetRunID(), "1.0")
	r.keep("v1-subagent-kept-delivery", turn.SubagentAnswerID(its), "")
	r.model.SetScript(fakellm.Text("I see."))
	for _, text := range []string{"And now?", "Anything else?"} {
		assert.Equal(t, "I see.", r.ask(session(t), text).Answer)
	}
	messages, _ := r.transcript(session(t))
	told := 0
	for _, m := range messages {
		if m.ID == turn.SubagentAnswerID(its) {
			told++
			assert.Contains(t, m.Text, "Done.")
		}
	}
	assert.Equal(t, 1, told)
	assert.Contains(t, string(r.model.Requests()[3].Body), isAnswer)
	forged := turn.SubagentAnswerID(turn.ChildSession(run.GetRunID(), "9.9"))
	app, _ := r.failure(r.start(session(t), workflows.Input{Message: &workflows.Message{ID: forged, Text: "hello"}}))
	assert.Equal(t, string(turn.CodeConfigInvalid), app.Type())
}

// TestAnAnswersTurnIsNarrowedLikeItsMessage narrows a message to some tools, or lets it work by a plan. The turn that the
// answer of its subagent begins has no other tools, and needs a plan as well.
func TestAnAnswersTurnIsNarrowedLikeItsMessage(t *testing.T) {
	t.Parallel()
	errand := fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Begun.")))
	for name, tc := range map[string]struct {
		message workflows.Message
		caller  fakellm.Case
		allowed int // requests that the user allows before the answer's turn
	}{
		"tools": {message: workflows.Message{Tools: []string{"agent/a", "local/read_file"}}, caller: errand},
		"plan": {message: workflows.Message{Plan: plan.ConfirmStep}, allowed: 1, caller: fakellm.When("errand of the user",
			fakellm.Steps(propose("call the agent"), fakellm.Calls(inBackground("a", "task")), reflects(1, plan.Conclude),
				fakellm.Text("Begun.")))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var effects atomic.Int32
			tries := fakellm.Steps(set("unasked"), fakellm.Text("I could not."))
			r := newEnv(t, fakellm.Cases(fakellm.When(isAnswer, tries), tc.caller, fakellm.When("task", fakellm.Text("Done."))),
				agents, func(c *config.Config) { c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 40, 40 })
			r.work(setting(&effects))
			tc.message.Text = "errand of the user"
			run := r.start(session(t), workflows.Input{Message: &tc.message, Limits: &workflows.LimitsRequest{
				TurnTimeout: ptr("10m")}})
			for i := range tc.allowed {
				w := r.waits(run.GetRunID(), i+1)[i]
				_, err := r.people().Approve(t.Context(), peopleclient.DecideInput{Session: session(t), Call: w.ID,
					ArgumentsHash: w.ArgumentsHash, By: "ann"})
				require.NoError(t, err)
			}
			r.ended(run.GetRunID())
			r.awaitAnswers(session(t))
			rec := r.answered(session(t), turn.SubagentAnswerID(r.subagents(session(t))[0]))
			require.NotEqual(t, run.GetRunID(), rec.ID, "a turn began with the answer")
			assert.Zero(t, effects.Load(), "the tool was not called")
			_, configs := r.ofMessage(session(t))
			root, err := r.store.TurnConfig(t.Context(), run.GetRunID())
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

// TestAStopEndsWhatAnEarlierTurnHasBegun stops a session whose turn has ended, and one whose running turn is another one
// than the turn that called the subagent. Nothing goes on.
func TestAStopEndsWhatAnEarlierTurnHasBegun(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"idle", "running", "web-ui"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			gate, own := fakellm.NewGate(), fakellm.NewGate()
			r := newEnv(t, fakellm.Cases(
				fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(inBackground("a", "task")), fakellm.Text("Begun."))),
				fakellm.When("task", fakellm.Text("Done.").Hold(0, gate)),
				fakellm.When("later", fakellm.Text("Later.").Hold(0, own)),
				fakellm.When("", fakellm.Text("I see."))), agents)
			r.work()
			run := r.begin(session(t), "errand of the user", nil)
			awaitGate(t, gate)
			r.ended(run.GetRunID())
			r.result(run)
			if how != "idle" {
				later := r.begin(session(t), "later", nil)
				awaitGate(t, own)
				if how == "web-ui" {
					require.NoError(t, r.client.CancelWorkflow(t.Context(), later.GetID(), ""))
				}
				defer func() { assert.Equal(t, turn.StateCancelled, r.ended(later.GetRunID()).State) }()
			}
			if how != "web-ui" {
				require.NoError(t, r.people().Stop(t.Context(), session(t)))
			}
			its := turn.ChildSession(run.GetRunID(), "1.0")
			require.Eventually(t, func() bool {
				s, err := r.store.Session(t.Context(), its)
				return err == nil && s.LastTurn.State == turn.StateCancelled
			}, within, 10*time.Millisecond, "the subagent is stopped")
			require.Error(t, r.client.GetWorkflow(t.Context(), workflows.BackgroundID("", its), "").Get(t.Context(), nil))
			_, err := r.store.Delivered(t.Context(), session(t), turn.SubagentAnswerID(its))
			require.ErrorIs(t, err, journal.ErrNotFound, "its end begins no turn")
			if how == "idle" {
				require.ErrorIs(t, r.people().Stop(t.Context(), session(t)), peopleclient.ErrNotRunning)
			}
		})
	}
}
