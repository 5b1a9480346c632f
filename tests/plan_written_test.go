package tests

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// sets is what the tools set, put and store were called with, in order, by turn.
type sets struct {
	mu     sync.Mutex
	values map[string][]string
}

type storeIn struct {
	Path string `json:"path"`
}

// tools are the tools. They fail for the value "fails", after their effect.
func (s *sets) tools() []engine.Option {
	text := func(ctx context.Context, in echoIn) (string, error) { return s.add(ctx, in.Text) }
	return []engine.Option{engine.WithTool("set", "Sets a value.", text), engine.WithTool("put", "Puts a value.", text),
		engine.WithTool("store", "Stores a file.",
			func(ctx context.Context, in storeIn) (string, error) { return s.add(ctx, in.Path) })}
}

func (s *sets) add(ctx context.Context, value string) (string, error) {
	call, _ := engine.CallInfo(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string][]string{}
	}
	s.values[call.Turn] = append(s.values[call.Turn], value)
	if value == "fails" {
		return "", errors.New("it does not work")
	}
	return "set " + value, nil
}

func (s *sets) of(turnID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values[turnID])
}

// TestAWrittenPlanIsCarriedOutWithoutTheModel confirms a plan of six written steps, with reflections after the third
// and at the end: the model is asked for the plan, for each reflection and for the answer. No step is asked for,
// although the policy asks for each call of the tool.
func TestAWrittenPlanIsCarriedOutWithoutTheModel(t *testing.T) {
	t.Parallel()
	var done sets
	reflect := plan.Step{Description: "look at the results", Tool: plan.Reflect}
	e := newEnv(t, fakellm.Steps(
		proposeSteps(written("1"), written("2"), written("3"), reflect, written("4"), written("5"), written("6"), reflect),
		reflects(4, plan.Done), reflects(8, plan.Done), fakellm.Text("All six.")), planner(plan.ConfirmPlan),
		asksFor("local/set"))
	e.work(done.tools()...)
	id := e.planned("change it")
	asked := e.waits(id, 1)[0]
	assert.Contains(t, asked.Arguments, `{"text":"6"}`, "the user sees what is confirmed")
	e.allow(session(t), asked, "")
	assert.Equal(t, "All six.", e.ended(id).Answer)
	assert.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, done.of(id))
	assert.Len(t, e.model.Requests(), 4, "the plan, two reflections and the answer")
	requests, err := e.journal.Requests(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, requests, 1)
	got := e.lastResults()
	require.Len(t, got, 3, "the reports are part of the results of the model's own calls")
	assert.Contains(t, got[0], `local/set {"text":"3"} as written. Its result (ok):]`+"\nset 3")
	assert.Contains(t, got[1], "set 6")
	calls, err := e.journal.Calls(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, calls, 9)
	for _, c := range calls {
		assert.Equal(t, turn.OutcomeOK, c.Outcome, c.Call.ID)
	}
	drawn := e.drawn(id)
	assert.Len(t, drawn, 9)
	assert.Contains(t, drawn[len(drawn)-1], "[x] 8. look at the results (reflect) — as it should be")
	e.keep("v1-plan-written", session(t), id)
}

// asksFor adds a tool to those that the policy asks for.
func asksFor(tool string) func(*config.Config) {
	return func(c *config.Config) { c.Policy.Ask = append(c.Policy.Ask, tool) }
}

// TestAMessageComesBeforeTheNextWrittenStep sends a message while a written step runs. The model gets it, cannot say
// that the next step is done, and lets the plan go on.
func TestAMessageComesBeforeTheNextWrittenStep(t *testing.T) {
	t.Parallel()
	var done sets
	running, proceed := make(chan struct{}), make(chan struct{})
	slow := engine.WithTool("slow", "Takes its time.", func(ctx context.Context, in echoIn) (string, error) {
		close(running)
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return done.add(ctx, in.Text)
	})
	first := plan.Step{Description: "slow", Tool: "local/slow", Args: json.RawMessage(setsTo("slow"))}
	e := newEnv(t, fakellm.Cases(
		fakellm.When("change it", fakellm.Steps(proposeSteps(first, written("two"), written("three")))),
		fakellm.When("and hurry", fakellm.Steps(reflects(2, plan.Done), reflects(2, plan.Continue), fakellm.Text("Done."))),
	), planner(plan.ConfirmPlan))
	e.work(append(done.tools(), slow)...)
	id := e.planned("change it")
	e.allow(session(t), e.waits(id, 1)[0], "")
	<-running
	e.say(session(t), workflows.Message{Text: "and hurry"})
	close(proceed)
	assert.Equal(t, "Done.", e.ended(id).Answer)
	assert.Equal(t, []string{"slow", "two", "three"}, done.of(id))
	assert.Contains(t, e.toldOf(id), "is not carried out yet")
}

// TestAWrittenStepOfATaintedSessionAsksAgain confirms a plan whose first step reads untrusted text: the second one,
// whose arguments were confirmed before, is asked for.
func TestAWrittenStepOfATaintedSessionAsksAgain(t *testing.T) {
	t.Parallel()
	l := newEffectServer(t)
	step := func(tool, text string) plan.Step {
		return plan.Step{Description: text, Tool: tool, Args: json.RawMessage(setsTo(text))}
	}
	e := withApprovals(t, turn.TaintOn, l, fakellm.Cases(
		fakellm.When("first", fakellm.Steps(proposeSteps(step("mcp/ledger/append", "a"), step("mcp/ledger/append", "b")),
			fakellm.Text("Done."))),
		fakellm.When("second", fakellm.Steps(proposeSteps(step("mcp/ledger/append", "c"), step("mcp/ledger/append", "d")),
			fakellm.Text("Done."))),
	))
	e.work()
	id := e.say(session(t), workflows.Message{Text: "first", Plan: plan.ConfirmPlan}).ID
	e.allow(session(t), e.waits(id, 1)[0], "")
	request := e.waits(id, 2)[1]
	assert.JSONEq(t, setsTo("b"), request.Arguments)
	assert.Contains(t, request.Why, "untrusted output")
	assert.Equal(t, 1, l.count("effect", "a"))
	_, err := e.people().Deny(t.Context(), client.DecideInput{Session: session(t), Request: request.ID,
		ArgumentsHash: request.ArgumentsHash, By: "ann"})
	require.NoError(t, err)
	e.ended(id)
	assert.Zero(t, l.count("effect", "b"))
	// The plan of the next turn says that the session is tainted, and no untrusted text comes after it.
	id = e.say(session(t), workflows.Message{Text: "second", Plan: plan.ConfirmPlan}).ID
	request = e.waits(id, 1)[0]
	assert.Contains(t, request.Why, "untrusted output")
	e.allow(session(t), request, "")
	assert.Equal(t, "Done.", e.ended(id).Answer)
	assert.Equal(t, 1, l.count("effect", "c")*l.count("effect", "d"))
}

// TestATodoListBindsNothing lets a model keep a list: it changes something before and beside it, and nothing is asked
// for.
func TestATodoListBindsNothing(t *testing.T) {
	t.Parallel()
	var done sets
	e := newEnv(t, fakellm.Steps(set("before"), proposeSteps(written("no")),
		proposeSteps(plan.Step{Description: "one"}, plan.Step{Description: "two"}),
		put("1").And(reflects(1, plan.Done)), proposeSteps(plan.Step{Description: "deux"}), reflects(2, plan.Done),
		fakellm.Text("Done.")),
		planner(plan.Todo))
	e.work(done.tools()...)
	id := e.planned("change it")
	assert.Equal(t, "Done.", e.ended(id).Answer)
	assert.Equal(t, []string{"before", "1"}, done.of(id))
	assert.Contains(t, e.toldOf(id), "leave out args")
	drawn := e.drawn(id)
	require.Len(t, drawn, 4)
	assert.Equal(t, "[x] 1. one — as it should be\n[x] 2. deux — as it should be", drawn[3])
	requests, err := e.journal.Requests(t.Context(), id)
	require.NoError(t, err)
	assert.Empty(t, requests)
}
