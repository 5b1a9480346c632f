package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

type echoIn struct {
	Text string `json:"text"`
}

func echo(_ context.Context, in echoIn) (string, error) { return "echo " + in.Text, nil }

// withEcho adds the echo tool twice: as a local activity (quick_echo) and as a regular activity.
func withEcho() []engine.Option {
	return []engine.Option{
		engine.WithTool("quick_echo", "Echoes.", echo, engine.LocalActivity(), engine.Risk(turn.RiskLow)),
		engine.WithTool("echo", "Echoes.", echo, engine.Risk(turn.RiskLow)),
	}
}

// withinBudget checks every turn's history: one upsert, no timer, and at most that many events.
func withinBudget(t *testing.T, events []*historypb.HistoryEvent, most int) {
	t.Helper()
	assert.LessOrEqual(t, len(events), most, "history events")
	assert.Equal(t, 1, count(events, enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES), "upserts")
	assert.Zero(t, count(events, enumspb.EVENT_TYPE_TIMER_STARTED), "timers")
}

func TestTheEventsOfAnAnswer(t *testing.T) {
	e := newEnv(t, fakellm.Text("It is a test.").Usage(20, 5, 0))
	e.work()
	run := e.begin("plain", "What is this?", nil)
	res := e.result(run)
	assert.Equal(t, workflows.Result{
		Version: 1, Session: "plain", Turn: run.GetRunID(), State: turn.StateCompleted, FinishReason: turn.FinishAnswered,
		Answer: "It is a test.", Usage: turn.Usage{InputTokens: 20, OutputTokens: 5, Unpriced: true}, Steps: 1,
		Model: "scripted",
	}, res)
	withinBudget(t, e.events("plain", run.GetRunID()), 14)
	e.keep("v1-answer", "plain", run.GetRunID())
}

func TestTheEventsOfACall(t *testing.T) {
	for tool, most := range map[string]int{"local_echo": 26, "local_quick_echo": 21} {
		t.Run(tool, func(t *testing.T) {
			e := newEnv(t, fakellm.Steps(fakellm.Call(tool, `{"text":"hello"}`), fakellm.Text("It echoed.")))
			e.work(withEcho()...)
			run := e.begin("call", "Echo hello.", nil)
			assert.Equal(t, "It echoed.", e.result(run).Answer)
			withinBudget(t, e.events("call", run.GetRunID()), most)
			e.keep("v1-call-"+tool, "call", run.GetRunID())
			require.Len(t, e.model.Requests(), 2)
			assert.Equal(t, "echo hello", e.model.Requests()[1].Chat.Last("tool").Content)
		})
	}
}

func TestParallelCallsKeepRequestOrder(t *testing.T) {
	for tool, most := range map[string]int{"local_echo": 56, "local_quick_echo": 26} {
		t.Run(tool, func(t *testing.T) {
			var calls []fakellm.ToolCall
			for i := range 6 {
				calls = append(calls, fakellm.ToolCall{Name: tool, Arguments: fmt.Sprintf(`{"text":"%d"}`, i)})
			}
			e := newEnv(t, fakellm.Steps(fakellm.Calls(calls...), fakellm.Text("done")))
			e.work(withEcho()...)
			run := e.begin("six", "Echo six times.", nil)
			assert.Equal(t, 6, e.result(run).ToolCalls)
			withinBudget(t, e.events("six", run.GetRunID()), most)
			e.keep("v1-parallel-"+tool, "six", run.GetRunID())
			requests := e.model.Requests()
			require.Len(t, requests, 2, "one inference before and one after")
			var results []string
			for _, m := range requests[1].Chat.Messages {
				if m.Role == "tool" {
					results = append(results, m.Content)
				}
			}
			assert.Equal(t, []string{"echo 0", "echo 1", "echo 2", "echo 3", "echo 4", "echo 5"}, results)
		})
	}
}

func TestInvalidActionsAreRepromptedOnce(t *testing.T) {
	large := fmt.Sprintf(`{"text":%q}`, strings.Repeat("a", 1024))
	for name, c := range map[string]struct {
		bad  fakellm.Reply
		want turn.ErrorEvent
	}{
		"text": {fakellm.Text("I think so."), turn.ErrorEvent{Invalid: turn.InvalidJSON}},
		"bad arguments": {fakellm.JSONCall("local_echo", `{"txet":"a"}`),
			turn.ErrorEvent{Invalid: turn.InvalidArguments, Tool: "local/echo"}},
		"large arguments": {fakellm.JSONCall("local_echo", large),
			turn.ErrorEvent{Invalid: turn.InvalidLargeArguments, Tool: "local/echo"}},
		"unknown tool": {fakellm.JSONCall("local_ehco", `{}`),
			turn.ErrorEvent{Invalid: turn.InvalidUnknownTool, Tool: "local_ehco"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := c.bad
			c.want.Code = turn.CodeInvalidAction
			small := func(c *config.Config) { c.Tuning.ArgumentBytes = 1024 }
			t.Run("corrected", func(t *testing.T) {
				e := newEnv(t, fakellm.Steps(bad, fakellm.JSONFinal("corrected")), inJSON, small)
				e.work(withEcho()...)
				res := e.ask("bad", "Do it.")
				assert.Equal(t, "corrected", res.Answer)
				e.keep("v1-reprompted", "bad", res.Turn)
				assert.Equal(t, 2, res.Steps)
				assert.Equal(t, []turn.ErrorEvent{c.want}, e.failures(res.Turn))
			})
			t.Run("given up", func(t *testing.T) {
				e := newEnv(t, fakellm.Always(bad), inJSON, small)
				e.work(withEcho()...)
				run := e.begin("bad", "Do it.", nil)
				err := run.Get(t.Context(), nil)
				assert.ErrorContains(t, err, "invalid_action")
				e.keep("v1-invalid-action", "bad", run.GetRunID())
				require.Len(t, e.model.Requests(), 2)
				assert.Equal(t, []turn.ErrorEvent{c.want, c.want}, e.failures(run.GetRunID()))
				record, err := e.journal.Turn(t.Context(), run.GetRunID())
				require.NoError(t, err)
				assert.Equal(t, turn.StateFailed, record.State)
				e.model.SetScript(fakellm.JSONFinal("still here"))
				assert.Equal(t, "still here", e.ask("bad", "And now?").Answer, "the session goes on")
			})
		})
	}
}

// TestAnUnknownToolIsAnsweredWithTheCatalogue checks the note that follows a call of a tool that the turn does not
// have.
func TestAnUnknownToolIsAnsweredWithTheCatalogue(t *testing.T) {
	t.Parallel()
	for _, mode := range []turn.Mode{turn.ModeNative, turn.ModeJSON} {
		wrong, final := fakellm.Call("local_ehco", `{}`), fakellm.Text("Well.")
		if mode == turn.ModeJSON {
			wrong, final = fakellm.JSONCall("local_ehco", `{}`), fakellm.JSONFinal("Well.")
		}
		e := newEnv(t, fakellm.Steps(wrong, final), withMode(mode))
		e.work(withEcho()...)
		assert.Equal(t, "Well.", e.ask(session(t)+string(mode), "Echo.").Answer)
		note := e.model.Requests()[1].Chat.Last("user").Content
		assert.Contains(t, note, "local_echo: Echoes.")
		assert.Contains(t, note, `"text":{`, "the schema of its arguments")
	}
}

// TestTheModelIsToldItsLimitsAndApprovals compares the system prompts of the turns of a session, one of which begins
// with the answer of a subagent.
func TestTheModelIsToldItsLimitsAndApprovals(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	m := fakellm.Cases(
		fakellm.When("which you have called in the background", fakellm.Text("So it is.")),
		fakellm.When("errand", fakellm.Steps(fakellm.Calls(inBackground("a", "look")), fakellm.Text("Begun."))),
		fakellm.When("look", fakellm.Text("Looked.").Hold(0, gate)),
		fakellm.When("And now?", fakellm.Text("Well.")))
	e := newEnv(t, m, agents, func(c *config.Config) {
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls, c.Runtime.TurnTimeout = 41, 42, 43*time.Minute
		c.Policy.Ask = []string{"local/echo"}
	})
	e.work(withEcho()...)
	first := e.ask(session(t), "errand of the user")
	gate.Release()
	e.answered(session(t), turn.SubagentAnswerID(turn.SubagentSession(first.Turn, "1.0")))
	e.say(session(t), workflows.Message{ID: "now", Text: "And now?"})
	e.answered(session(t), "now")
	var prompts []string
	for _, q := range e.model.Requests() {
		if q.Chat.Asked() != "look" {
			prompts = append(prompts, q.Chat.Last("system").Content)
		}
	}
	require.Len(t, prompts, 4)
	for _, p := range prompts {
		assert.Equal(t, prompts[0], p, "the prefix stays, so that the provider caches it")
	}
	for _, part := range []string{"41 steps", "42 tool calls", "43m", "local_echo"} {
		assert.Contains(t, prompts[0], part)
	}
	assert.NotContains(t, prompts[0], "local_quick_echo")
}

func TestAPromptIsAPrefixOfTheNextOne(t *testing.T) {
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_quick_echo", `{"text":"a"}`),
		fakellm.Call("local_quick_echo", `{"text":"b"}`), fakellm.Text("done")))
	e.work(withEcho()...)
	e.ask("prefix", "Echo twice.")
	requests := e.model.Requests()
	require.Len(t, requests, 3)
	for i := range 2 {
		end := strings.LastIndex(string(requests[i].Body), `],"`)
		if tools := strings.Index(string(requests[i].Body), `],"stream"`); tools >= 0 {
			end = tools
		}
		head := requests[i].Body[:end]
		assert.True(t, strings.HasPrefix(string(requests[i+1].Body), string(head)), "step %d:\n%s\nstep %d:\n%s", i+1, head,
			i+2, requests[i+1].Body)
	}
}

type cityIn struct {
	Name string `json:"name" jsonschema:"a city's name"`
}

// TestAnEmbeddedToolIsCalled runs the example of package engine on a real server: a Go function becomes a tool. The
// model sees its schema and gets its result, and its arguments are checked.
func TestAnEmbeddedToolIsCalled(t *testing.T) {
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_weather", `{"name":"Oslo"}`), fakellm.Text("Sunny.")))
	e.work(engine.WithTool("weather", "Tells the weather of a city.",
		func(_ context.Context, in cityIn) (map[string]string, error) {
			return map[string]string{"sky": "sunny in " + in.Name}, nil
		}, engine.LocalActivity(), engine.Risk(turn.RiskLow)))
	assert.Equal(t, "Sunny.", e.ask("weather", "How is the weather in Oslo?").Answer)
	requests := e.model.Requests()
	require.Len(t, requests, 2)
	assert.Contains(t, requests[0].Chat.ToolNames(), "local_weather")
	assert.Contains(t, string(requests[0].Body), "a city's name")
	assert.JSONEq(t, `{"sky":"sunny in Oslo"}`, requests[1].Chat.Last("tool").Content)
}
