package tests

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// deviation is a model that does something else than the plan that the user has confirmed.
type deviation struct {
	replies []fakellm.Script
	edit    string       // the user's plan instead of the model's first one; empty: the user allows that
	tools   []string     // of the message
	confirm plan.Confirm // empty: plan
	effects []string     // what takes effect; all of it was confirmed
	asked   []string     // arguments of the calls beside plans that are asked for, and denied
	says    string       // a part of what the model or the user is told
}

// setsTo are the arguments of the tools set and put.
func setsTo(text string) string { return `{"text":"` + text + `"}` }

func put(text string) fakellm.Reply { return fakellm.Call("local_put", setsTo(text)) }

var failing = plan.Step{Description: "fails", Tool: "local/set", Args: json.RawMessage(setsTo("fails"))}

// deviations are the ways in which a model deviates from a confirmed plan. The policy allows the tools set and put
// without an approval.
func deviations() map[string]deviation {
	one, two := written("one"), written("two")
	bound := plan.Step{Description: "bound", Tool: "local/set"}
	done := fakellm.Text("Done.")
	inDocs := plan.Step{Description: "paths", Tool: "local/store", Paths: []string{"docs"}}
	store := func(path string) fakellm.Reply { return fakellm.Call("local_store", `{"path":"`+path+`"}`) }
	return map[string]deviation{
		"another tool in a bound step": {replies: []fakellm.Script{proposeSteps(bound), put("x"), done},
			asked: []string{setsTo("x")}, says: "may call only local/set"},
		"a tool in a step that names none": {replies: []fakellm.Script{proposeSteps(plan.Step{Description: "free"}),
			set("x"), done},
			asked: []string{setsTo("x")}},
		"other arguments after a failure": {replies: []fakellm.Script{proposeSteps(failing, one), set("x"), done},
			effects: []string{"fails"}, asked: []string{setsTo("x")}},
		"the same call again after a failure": {replies: []fakellm.Script{proposeSteps(failing, one), set("fails"), done},
			effects: []string{"fails"}, asked: []string{setsTo("fails")}},
		"another tool with the same arguments": {replies: []fakellm.Script{proposeSteps(failing, one), put("one"), done},
			effects: []string{"fails"}, asked: []string{setsTo("one")}},
		"a later step first": {replies: []fakellm.Script{proposeSteps(plan.Step{Description: "x", Tool: "local/put"}, one),
			set("one"), done},
			asked: []string{setsTo("one")}},
		"a change in a step that reflects": {replies: []fakellm.Script{
			proposeSteps(one, plan.Step{Description: "look", Tool: plan.Reflect}, two), set("two"), done},
			effects: []string{"one"}, says: "changes nothing"},
		"a call beside the proposal": {replies: []fakellm.Script{proposeSteps(one).And(set("x")), done},
			effects: []string{"one"}, says: "there is no plan yet"},
		"the step's own call beside the proposal": {replies: []fakellm.Script{proposeSteps(one).And(set("one")), done},
			effects: []string{"one"}},
		"a call beside a reflection": {replies: []fakellm.Script{proposeSteps(bound, one),
			reflects(1, plan.Done).And(set("x")), done},
			effects: []string{"one"}, says: "reflects on a step"},
		"a call after the end": {replies: []fakellm.Script{proposeSteps(one), set("one"), done}, effects: []string{"one"},
			says: "the plan has ended"},
		"the model's plan after the user's edit": {replies: []fakellm.Script{proposeSteps(two), set("two"), done},
			edit:    `{"steps":[{"description":"look","tool":"local/put"},{"description":"one","tool":"local/set","args":{"text":"one"}}]}`,
			effects: nil, asked: []string{setsTo("two")}},
		"a second plan": {replies: []fakellm.Script{proposeSteps(failing, one), proposeSteps(two), done},
			effects: []string{"fails"}, says: "no other plan"},
		"a second plan beside its call": {replies: []fakellm.Script{proposeSteps(failing, one),
			proposeSteps(two).And(set("two")), done},
			effects: []string{"fails"}, asked: []string{setsTo("two")}},
		"a tool that the message leaves out": {tools: []string{"local/set"}, replies: []fakellm.Script{
			proposeSteps(plan.Step{Description: "x", Tool: "local/put", Args: json.RawMessage(setsTo("x"))}),
			proposeSteps(one), done},
			effects: []string{"one"}, says: "step 1 cannot be carried out as written"},
		"arguments that do not fit the tool": {replies: []fakellm.Script{
			proposeSteps(plan.Step{Description: "x", Tool: "local/set", Args: json.RawMessage(`{"txt":"x"}`)}),
			proposeSteps(one), done},
			effects: []string{"one"}, says: "step 1 cannot be carried out as written"},
		"a name twice in the arguments": {replies: []fakellm.Script{
			fakellm.Call("local_plan", `{"steps":[{"description":"x","tool":"local/set","args":{"text":"a","text":"b"}}]}`),
			proposeSteps(one), done}, effects: []string{"one"}},
		"a tool that policy denies": {replies: []fakellm.Script{
			proposeSteps(plan.Step{Description: "x", Tool: "local/set", Args: json.RawMessage(setsTo("forbidden"))}, one),
			done}},
		"a path with ..": {replies: []fakellm.Script{proposeSteps(inDocs), store("docs/../src"), done},
			asked: []string{`{"path":"docs/../src"}`}},
		"a path in another form": {replies: []fakellm.Script{proposeSteps(inDocs), store("./docs/a"), done},
			asked: []string{`{"path":"./docs/a"}`}},
		"a path that only begins alike": {replies: []fakellm.Script{proposeSteps(inDocs), store("docs2/a"), done},
			asked: []string{`{"path":"docs2/a"}`}},
		"an agent in the step's place": {replies: []fakellm.Script{proposeSteps(bound),
			fakellm.Calls(callAgent("a", "do it")), done},
			asked: []string{`{"task":"do it"}`}, says: "may call only local/set"},
		"a call that looks like the plan's": {replies: []fakellm.Script{proposeSteps(bound),
			fakellm.Calls(fakellm.ToolCall{ID: "plan_2_0", Name: "local_put", Arguments: setsTo("x")}), done},
			asked: []string{setsTo("x")}},
		"each later step is denied": {confirm: plan.ConfirmStep, replies: []fakellm.Script{proposeSteps(one, two), done},
			effects: []string{"one"}, asked: []string{setsTo("two")}},
		"a change of a step that nobody has announced": {confirm: plan.ConfirmStep,
			replies: []fakellm.Script{proposeSteps(one, bound), set("x"), done},
			effects: []string{"one"}, asked: []string{setsTo("x")}},
	}
}

// TestNoDeviationFromAPlanTakesEffectUnseen confirms plans and denies everything else that is asked for: what takes
// effect is what was confirmed.
func TestNoDeviationFromAPlanTakesEffectUnseen(t *testing.T) {
	t.Parallel()
	all := deviations()
	require.GreaterOrEqual(t, len(all), 20)
	var cases []fakellm.Case
	for name, d := range all {
		cases = append(cases, fakellm.When("way: "+name+".", fakellm.Steps(d.replies...)))
	}
	var effects sets
	e := newEnv(t, fakellm.Cases(cases...), planner(plan.ConfirmPlan), func(c *config.Config) {
		c.Agents = append(c.Agents, turn.Agent{ID: "a"}, turn.Agent{ID: "careful", Plan: plan.ConfirmStep})
		c.Runtime.Agents = []string{"a"}
		for i := range c.Agents {
			if c.Agents[i].Plan != "" {
				c.Agents[i].Agents = []string{"a"}
			}
		}
		c.Policy.Rules = append(c.Policy.Rules, turn.Rule{Tool: "local/set", Permit: turn.Deny,
			Arguments: map[string]string{"text": "forbidden"}})
	})
	e.work(effects.tools()...)
	for name, d := range all {
		t.Run(name, func(t *testing.T) { e.deviates(t, name, d, &effects) })
	}
}

func (e *env) deviates(t *testing.T, name string, d deviation, effects *sets) {
	agent := "planner"
	if d.confirm == plan.ConfirmStep {
		agent = "careful"
	}
	id := e.start(session(t), workflows.Input{Agent: agent, Message: &workflows.Message{Text: "way: " + name + ".",
		Tools: d.tools}}).GetRunID()
	var asked []string
	plans := 0
	for n := 1; ; n++ {
		r, more := e.nextRequest(id, n)
		if !more {
			break
		}
		in := client.DecideInput{Session: session(t), Request: r.ID, ArgumentsHash: r.ArgumentsHash, By: "ann",
			Reason: "no other plan"}
		var err error
		switch {
		case r.Tool != plan.Tool:
			asked = append(asked, r.Arguments)
			_, err = e.people().Deny(t.Context(), in)
		case plans > 0:
			_, err = e.people().Deny(t.Context(), in)
		default:
			plans++
			if d.edit != "" {
				in.ChangedPlan = json.RawMessage(d.edit)
			}
			_, err = e.people().Approve(t.Context(), in)
		}
		require.NoError(t, err)
	}
	assert.Equal(t, "Done.", e.ended(id).Answer)
	assert.Equal(t, d.effects, effects.of(id))
	assert.Equal(t, d.asked, asked)
	if d.says != "" {
		assert.Contains(t, e.toldOf(id), d.says)
	}
}

// nextRequest waits until a turn has n requests, and returns the last of them; false if it ends before.
func (e *env) nextRequest(turnID string, n int) (turn.Request, bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), within)
	defer cancel()
	for {
		changed := e.journal.Changed(ctx)
		list, err := e.journal.Requests(ctx, turnID)
		if err == nil && len(list) >= n {
			return list[n-1], true
		}
		if rec, err := e.journal.Turn(ctx, turnID); err == nil && rec.State.Terminal() {
			return turn.Request{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(e.t, "the turn neither waits nor ends")
		}
	}
}

// toldOf returns what the model of a turn and its user were told: the results of calls, and the reasons of requests.
func (e *env) toldOf(turnID string) string {
	e.t.Helper()
	calls, err := e.journal.Calls(e.t.Context(), turnID)
	require.NoError(e.t, err)
	var all strings.Builder
	for _, c := range calls {
		all.WriteString(c.Text + "\n")
	}
	requests, err := e.journal.Requests(e.t.Context(), turnID)
	require.NoError(e.t, err)
	for _, r := range requests {
		all.WriteString(r.Why + "\n")
	}
	return all.String()
}
