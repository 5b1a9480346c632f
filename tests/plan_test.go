package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planner is an agent that works by a plan, of which users confirm this much.
func planner(confirm plan.Confirm) func(*config.Config) {
	return func(c *config.Config) {
		c.Agents = append(c.Agents, turn.Agent{ID: "planner", Plan: confirm})
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 30, 30
	}
}

// setting is a tool that changes something, and keeps what it was called with.
func setting(effects *atomic.Int32) engine.Option {
	return engine.WithTool("set", "Sets a value.", func(_ context.Context, in echoIn) (string, error) {
		effects.Add(1)
		return "set " + in.Text, nil
	})
}

func set(text string) fakellm.Reply { return fakellm.Call("local_set", `{"text":"`+text+`"}`) }

// propose is a call that proposes a plan with these steps, each of which the model does with the tool set.
func propose(steps ...string) fakellm.Reply {
	list := make([]plan.Step, len(steps))
	for i, s := range steps {
		list[i] = plan.Step{Description: s, Tool: "local/set"}
	}
	return proposeSteps(list...)
}

// written is a step that sets this text as it is written.
func written(text string) plan.Step {
	return plan.Step{Description: text, Tool: "local/set", Args: json.RawMessage(`{"text":"` + text + `"}`)}
}

func proposeSteps(steps ...plan.Step) fakellm.Reply {
	raw, _ := json.Marshal(plan.Plan{Steps: steps})
	return fakellm.Call("local_plan", string(raw))
}

func reflects(step int, v plan.Assessment) fakellm.Reply {
	return fakellm.Call("local_plan_step", fmt.Sprintf(`{"step":%d,"assessment":%q,"reflection":"as it should be"}`, step, v))
}

// planned begins a turn of the planner.
func (e *env) planned(text string) (run string) {
	e.t.Helper()
	return e.start(session(e.t), workflows.Input{Agent: "planner", Message: &workflows.Message{Text: text}}).GetRunID()
}

// drawn returns the plan as each of a turn's events about it draws it.
func (e *env) drawn(turnID string) (list []string) {
	e.t.Helper()
	for ev, err := range follow.Turn(e.t.Context(), e.journal, turnID, -1) {
		require.NoError(e.t, err)
		var p plan.Progress
		if ev.Kind == turn.EventPlan {
			require.NoError(e.t, json.Unmarshal(ev.Data, &p))
			list = append(list, p.String())
		}
	}
	return list
}

// lastResults returns the results that the model saw with its last request.
func (e *env) lastResults() []string {
	requests := e.model.Requests()
	return results(requests[len(requests)-1].Chat)
}

// TestATurnWorksByAPlan lets a model propose three steps. The user changes the plan, allows the second step, and allows
// the third one while no worker runs.
func TestATurnWorksByAPlan(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(set("too early"), propose("one", "two", "three"), set("uno"), reflects(2, plan.Done),
		reflects(1, plan.Done), set("two"), reflects(2, plan.Done), set("three"), reflects(3, plan.Done),
		set("too late"), fakellm.Text("All done.")), planner(plan.ConfirmStep))
	stop := e.work(setting(&effects))
	id := e.planned("change it")
	asked := e.waits(id, 1)[0]
	assert.Equal(t, plan.Tool, asked.Tool)
	assert.Zero(t, effects.Load(), "nothing is changed before the plan is accepted")
	changed := json.RawMessage(`{"steps":[{"description":"uno","tool":"local/set"},` +
		`{"description":"two","tool":"local/set"},{"description":"three","tool":"local/set"}]}`)
	decide := func(w turn.Request, in client.DecideInput) error {
		in.Session, in.Request, in.ArgumentsHash, in.By = session(t), w.ID, w.ArgumentsHash, "ann"
		_, err := e.people().Approve(t.Context(), in)
		return err
	}
	for _, bad := range []string{`{"steps":[]}`, `{}`, `[1]`, `{"steps":[{"description":"x"}],"confirm":"never"}`,
		`{"steps":[{"description":"` + strings.Repeat("x", plan.MaxBytes) + `"}]}`} {
		require.ErrorIs(t, decide(asked, client.DecideInput{ChangedPlan: json.RawMessage(bad)}), client.ErrInvalid, bad)
	}
	require.ErrorIs(t, decide(asked, client.DecideInput{Grant: turn.GrantTool}), client.ErrInvalid,
		"every plan is confirmed")
	require.NoError(t, decide(asked, client.DecideInput{ChangedPlan: changed}))
	require.NoError(t, decide(asked, client.DecideInput{ChangedPlan: changed}), "the same decision again changes nothing")
	require.ErrorIs(t, decide(asked, client.DecideInput{}), client.ErrAlreadyDecided)
	second := e.waits(id, 2)[1]
	assert.Equal(t, plan.StepTool, second.Tool)
	assert.Contains(t, second.Why, "step 2 is next: two")
	require.ErrorIs(t, decide(second, client.DecideInput{ChangedPlan: changed}), client.ErrInvalid, "it is no plan")
	require.NoError(t, decide(second, client.DecideInput{}))
	third := e.waits(id, 3)[2]
	assert.EqualValues(t, 2, effects.Load())
	stop()
	e.work(setting(&effects))
	require.NoError(t, decide(third, client.DecideInput{}))
	assert.Equal(t, "All done.", e.ended(id).Answer)
	assert.EqualValues(t, 3, effects.Load())
	got := e.lastResults()
	require.Len(t, got, 10)
	assert.Contains(t, got[0], "there is no plan yet")
	assert.Contains(t, got[1], "as the user has changed it:\n[>] 1. uno (local/set)\n[ ] 2. two")
	assert.Contains(t, got[3], "step 2 is pending")
	assert.Contains(t, got[8], "The plan has ended")
	assert.Contains(t, got[9], "the plan has ended")
	drawn := e.drawn(id)
	require.Len(t, drawn, 4)
	assert.Equal(t, "[x] 1. uno (local/set) — as it should be\n[x] 2. two (local/set) — as it should be\n"+
		"[x] 3. three (local/set) — as it should be", drawn[3])
	e.keep("v1-plan", session(t), id)
}

// TestARejectedPlanIsRevised rejects plans until the model may propose no other one.
func TestARejectedPlanIsRevised(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	var script []fakellm.Script
	for n := range plan.MaxRevisions + 2 {
		script = append(script, propose(fmt.Sprintf("plan %d", n)))
	}
	e := newEnv(t, fakellm.Steps(append(script, set("anyway"), fakellm.Text("I cannot."))...), planner(plan.ConfirmPlan))
	e.work(setting(&effects))
	id := e.planned("change it")
	for n := range plan.MaxRevisions + 1 {
		w := e.waits(id, n+1)[n]
		_, err := e.people().Deny(t.Context(), client.DecideInput{Session: session(t), Request: w.ID,
			ArgumentsHash: w.ArgumentsHash, By: "ann", Reason: fmt.Sprintf("reason %d", n)})
		require.NoError(t, err)
	}
	assert.Equal(t, "I cannot.", e.ended(id).Answer)
	got := e.lastResults()
	require.Len(t, got, plan.MaxRevisions+3)
	for n := range plan.MaxRevisions + 1 {
		assert.Contains(t, got[n], fmt.Sprintf("reason %d", n))
	}
	assert.Contains(t, got[plan.MaxRevisions+1], "which is the maximum")
	assert.Zero(t, effects.Load())
	assert.Empty(t, e.drawn(id))
	e.keep("v1-plan-rejected", session(t), id)
}

// TestAPlanIsRevisedAndConcluded works without confirmations. A step uses up its part of the inferences, the steps that
// are not done are replaced, and the rest is left out.
func TestAPlanIsRevisedAndConcluded(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(propose("one", "two", "three"), set("1"), reflects(1, plan.Done),
		set("2"), set("2.1"), set("2.2"), set("2.3"), set("2.4"),
		set("over"), reflects(2, plan.Revise), set("unplanned"), propose("deux", "trois"), set("3"),
		reflects(2, plan.Conclude), fakellm.Text("Enough.")), planner(plan.ConfirmNever),
		func(c *config.Config) { c.Runtime.MaxSteps = 17 })
	e.work(setting(&effects))
	id := e.planned("change it")
	assert.Equal(t, "Enough.", e.ended(id).Answer)
	assert.EqualValues(t, 7, effects.Load())
	got := e.lastResults()
	assert.Contains(t, got[8], "has used its part")
	assert.Contains(t, got[10], "is being revised")
	drawn := e.drawn(id)
	require.Len(t, drawn, 5)
	assert.Equal(t, "[x] 1. one (local/set) — as it should be\n[-] 2. deux (local/set) — as it should be\n"+
		"[-] 3. trois (local/set)",
		drawn[4])
	requests, err := e.journal.Requests(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, requests)
}

// TestAPlanOfTenStepsFitsTheDefaultLimits makes three calls, one after the other, in each of ten steps, after two looks
// around.
func TestAPlanOfTenStepsFitsTheDefaultLimits(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	replies := []fakellm.Script{fakellm.Call("local_list_files", `{"path":"."}`),
		fakellm.Call("local_search_text", `{"text":"x"}`)}
	var steps []string
	for i := range 10 {
		steps = append(steps, fmt.Sprintf("step %d", i+1))
	}
	replies = append(replies, propose(steps...))
	for i, step := range steps {
		replies = append(replies, set(step+"a"), set(step+"b"), set(step+"c"), reflects(i+1, plan.Done))
	}
	e := newEnv(t, fakellm.Steps(append(replies, fakellm.Text("All ten."))...), func(c *config.Config) {
		c.SetPreset(config.Default().Runtime.Preset)
		c.Agents = append(c.Agents, turn.Agent{ID: "planner", Plan: plan.ConfirmNever})
	})
	e.work(setting(&effects))
	assert.Equal(t, "All ten.", e.ended(e.planned("change it")).Answer)
	assert.EqualValues(t, 30, effects.Load())
}

// TestAMessageDoesNotLoosenAnAgentsPlan asks an agent whose plans are confirmed for a plan that is not, and one without
// a plan for one that is.
func TestAMessageDoesNotLoosenAnAgentsPlan(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(propose("one"), fakellm.Text("Done.")), planner(plan.ConfirmPlan))
	e.work(setting(&effects))
	for name, in := range map[string]workflows.Input{
		"loosened": {Agent: "planner", Message: &workflows.Message{Text: "a", Plan: plan.ConfirmNever}},
		"asked":    {Message: &workflows.Message{Text: "b", Plan: plan.ConfirmPlan}},
	} {
		run := e.start(session(t)+name, in)
		assert.Equal(t, plan.Tool, e.waits(run.GetRunID(), 1)[0].Tool, name)
		require.NoError(t, e.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
		require.Error(t, run.Get(t.Context(), nil))
	}
	app, _ := e.failure(e.start(session(t)+"unknown", workflows.Input{Message: &workflows.Message{Text: "c",
		Plan: "maybe"}}))
	assert.Equal(t, string(turn.CodeInputInvalid), app.Type())
}

// TestThePlanStaysInThePrompt cuts the messages that show the plan. The prompt still says how far it has come.
func TestThePlanStaysInThePrompt(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	script := []fakellm.Script{propose("one", "two"), set("1"), reflects(1, plan.Done)}
	for i := range 8 {
		script = append(script, set(strconv.Itoa(2+i)))
	}
	e := newEnv(t, fakellm.Steps(append(script, reflects(2, plan.Done), fakellm.Text("Done."))...),
		planner(plan.ConfirmNever),
		func(c *config.Config) { c.Runtime.MaxHistoryMessages = 6 })
	e.work(setting(&effects))
	id := e.planned("change it")
	assert.Equal(t, "Done.", e.ended(id).Answer)
	requests := e.model.Requests()
	for n, q := range requests[1 : len(requests)-1] {
		assert.Equal(t, 1, strings.Count(string(q.Body), "] 2. two (local/set)\\n\\n"), "request %d shows the plan once", n+2)
	}
}

// independent is a plan of two independent steps, which agents carry out, and a step that looks at both.
var independent = fakellm.Call("local_plan", `{"steps":[{"description":"task one","tool":"agent/a","independent":true},
	{"description":"task two","tool":"agent/b","independent":true},{"description":"look at both","tool":"reflect"}]}`)

// write writes a file to the canvas of the session.
func write(path, content string) fakellm.Reply {
	return fakellm.Call("local_write_file", fmt.Sprintf(`{"path":%q,"content":%q}`, path, content))
}

// TestIndependentStepsAreAgentsWork lets the plan give independent steps to two agents at the same time, each on a
// canvas of its own, and take their canvases in the order of the plan. The model is asked for the plan, the look at
// both and the answer.
func TestIndependentStepsAreAgentsWork(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := gitIn(t, repo)
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "begin")
	m := fakellm.Cases(
		fakellm.When("errand of the user", fakellm.Steps(fakellm.Calls(callAgent("a", "too early")), independent,
			reflects(3, plan.Done), fakellm.Text("All done."))),
		fakellm.When("task one", fakellm.Steps(write("one.md", "x\n"), fakellm.Text("One."))),
		fakellm.When("task two", fakellm.Steps(write("two.md", "x\n"), fakellm.Text("Two."))))
	e := newEnv(t, m, agents, func(c *config.Config) {
		c.Runtime.Workspace, c.Workspace.Mode = repo, config.WorkspaceTree
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 20, 20
	})
	e.work()
	run := e.start(session(t), workflows.Input{Message: &workflows.Message{Text: "errand of the user",
		Plan: plan.ConfirmNever}})
	res := e.result(run)
	require.Equal(t, "All done.", res.Answer)
	got := e.lastResults()
	assert.Contains(t, got[0], "there is no plan yet", "an agent could change something")
	branch := "everturn/" + session(t)
	stored := gitIn(t, e.store(repo))
	assert.Equal(t, "one.md\ntwo.md", stored("ls-tree", "-r", "--name-only", branch))
	assert.Equal(t, "take the changes of "+turn.SubagentSession(res.Turn, "3.1"), stored("log", "-1", "--format=%s", branch),
		"the second step is taken last")
	e.subagent(res.Turn, "3.0")
	e.subagent(res.Turn, "3.1")
	drawn := e.drawn(res.Turn)
	assert.Contains(t, drawn[len(drawn)-1], "[x] 1. task one (agent/a)\n[x] 2. task two (agent/b)")
	e.keep("v1-plan-agents", session(t), res.Turn)
}

// TestAConflictOfIndependentStepsStopsThePlan lets both agents write the same file: the second canvas is not taken, and
// the model is told the file.
func TestAConflictOfIndependentStepsStopsThePlan(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := gitIn(t, repo)
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "begin")
	m := fakellm.Cases(
		fakellm.When("errand of the user", fakellm.Steps(independent, reflects(2, plan.Conclude), fakellm.Text("One of them."))),
		fakellm.When("task one", fakellm.Steps(write("same.md", "one\n"), fakellm.Text("One."))),
		fakellm.When("task two", fakellm.Steps(write("same.md", "two\n"), fakellm.Text("Two."))))
	e := newEnv(t, m, agents, func(c *config.Config) {
		c.Runtime.Workspace, c.Workspace.Mode = repo, config.WorkspaceTree
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 20, 20
	})
	e.work()
	run := e.start(session(t), workflows.Input{Message: &workflows.Message{Text: "errand of the user",
		Plan: plan.ConfirmNever}})
	require.Equal(t, "One of them.", e.result(run).Answer)
	assert.Contains(t, e.toldOf(run.GetRunID()), "same.md")
	assert.Equal(t, "one", gitIn(t, e.store(repo))("show", "everturn/"+session(t)+":same.md"))
	drawn := e.drawn(run.GetRunID())
	assert.Contains(t, drawn[len(drawn)-1], "[x] 1. task one (agent/a)\n[-] 2. task two (agent/b)")
}

// TestChangesBesideAReflectionAreRefused lets a model change something in the completion with which it reflects on a
// step. The reflection counts, the change does not run, and the model may make it in its next answer.
func TestChangesBesideAReflectionAreRefused(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	both := fakellm.Calls(
		fakellm.ToolCall{Name: "local_plan_step", Arguments: `{"step":1,"assessment":"done","reflection":"as it should be"}`},
		fakellm.ToolCall{Name: "local_set", Arguments: `{"text":"two"}`})
	e := newEnv(t, fakellm.Steps(propose("one", "two"), set("one"), both, set("two"), reflects(2, plan.Done),
		fakellm.Text("Done.")), planner(plan.ConfirmNever))
	e.work(setting(&effects))
	id := e.planned("both at once")
	assert.Equal(t, "Done.", e.ended(id).Answer)
	assert.EqualValues(t, 2, effects.Load())
	got := e.lastResults()
	assert.Contains(t, got[3], "reflects on a step")
	assert.NotContains(t, got[3], "do not try again")
	calls, err := e.journal.Calls(t.Context(), id)
	require.NoError(t, err)
	outcomes := map[string]turn.Outcome{}
	for _, c := range calls {
		outcomes[c.Call.ID] = c.Outcome
	}
	assert.Equal(t, turn.OutcomeOK, outcomes["3.0"], "the reflection counts")
	assert.Equal(t, turn.OutcomeDenied, outcomes["3.1"])
}
