package tests

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// refuses returns an answer in the refusal field of Chat Completions.
func refuses(text string) fakellm.Reply {
	return fakellm.Raw(`data: {"choices":[{"delta":{"content":null,"refusal":"`+text+`"}}]}`+"\n\n",
		`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n")
}

// TestATruncatedCompletionEndsTheTurnWithItsReason checks that an incomplete completion ends the turn with its finish
// reason. Its text is kept, its calls do not run, and the session continues. If a call was cut off, the model may retry
// it in smaller steps, as often as after an invalid action.
func TestATruncatedCompletionEndsTheTurnWithItsReason(t *testing.T) {
	t.Parallel()
	failing := func(c *config.Config) { c.Policy.OnInvalidAction = turn.ErrorFail }
	call := func(arguments string) fakellm.Reply {
		return fakellm.Call("local_mark", arguments).WithText("Looking.")
	}
	for name, c := range map[string]struct {
		script   fakellm.Script
		reason   turn.FinishReason
		answer   string
		requests int
		keep     string
		change   func(*config.Config)
	}{
		"text": {fakellm.Text("The first half").Finish("length"), turn.FinishLength, "The first half", 1,
			"v1-answer-cut", nil},
		"a call": {fakellm.Always(call(`{"text":"a`).Finish("length")), turn.FinishLength, "Looking.", 2,
			"v1-call-cut", nil},
		"a call, made again": {fakellm.Steps(call("").Finish("length"), fakellm.Text("done")), turn.FinishAnswered, "done",
			2, "v1-call-cut-again", nil},
		"a call, not forgiven": {call("").Finish("length"), turn.FinishLength, "Looking.", 1, "", failing},
		"a question": {fakellm.Always(fakellm.Call("ask_user", `{"question":"Wh`).Finish("length")),
			turn.FinishLength, "", 2, "", nil},
		"filtered": {fakellm.Text("I would").Finish("content_filter"), turn.FinishContentFilter, "I would", 1,
			"v1-content-filter", nil},
		"a filtered call": {call("").Finish("content_filter"), turn.FinishContentFilter, "Looking.", 1,
			"v1-call-filtered", nil},
		"refused": {refuses("I cannot do that."), turn.FinishRefusal, "I cannot do that.", 1, "v1-refusal",
			nil},
		"JSON, text": {fakellm.Text(`{"type":"final","content":"The \"first\" ha\u00`).Finish("length"),
			turn.FinishLength, `The "first" ha`, 1, "", inJSON},
		"JSON, a call": {fakellm.Always(
			fakellm.Text(`{"type":"tool_call","name":"local_mark","argu`).Finish("length")), turn.FinishLength, "", 2, "",
			inJSON},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var marks atomic.Int64
			change := []func(*config.Config){}
			if c.change != nil {
				change = append(change, c.change)
			}
			e := newEnv(t, c.script, change...)
			e.work(engine.WithTool("mark", "Marks.", func(context.Context, struct {
				Text string `json:"text,omitempty"`
			}) (string, error) {
				marks.Add(1)
				return "marked", nil
			}, engine.LocalActivity(), engine.Risk(turn.RiskLow)))
			res := e.ask(session(t), "Look.")
			assert.Equal(t, turn.StateCompleted, res.State)
			assert.Equal(t, c.reason, res.FinishReason)
			assert.Equal(t, c.answer, strings.TrimSpace(res.Answer))
			assert.Len(t, e.model.Requests(), c.requests)
			assert.Zero(t, marks.Load(), "no call of it ran")
			record, err := e.journal.Turn(t.Context(), res.Turn)
			require.NoError(t, err)
			assert.Equal(t, c.reason, record.Reason)
			text, _, _ := e.story(res.Turn)
			assert.Contains(t, text, c.answer, "what was said is in the stream")
			if c.keep != "" {
				e.keep(c.keep, session(t), res.Turn)
			}
			if c.change == nil {
				e.goesOn(session(t))
			}
		})
	}
}

// TestTheTranscriptKeepsTruncatedCompletions checks that the transcript keeps the partial completion and, for each of
// its calls, why the call did not run.
func TestTheTranscriptKeepsTruncatedCompletions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Always(fakellm.Call("local_quick_echo", `{"text":"a`).WithText("Looking.").Finish("length")))
	e.work(withEcho()...)
	res := e.ask(session(t), "Look.")
	assert.Zero(t, res.ToolCalls)
	messages, _ := e.transcript(session(t))
	require.Len(t, messages, 5, "the request, and twice an answer and its result")
	for _, i := range []int{1, 3} {
		assert.Equal(t, "Looking.", messages[i].Text)
		assert.Equal(t, `{"text":"a`, messages[i].ToolCalls[0].Arguments)
		assert.Equal(t, turn.OutcomeDenied, messages[i+1].Outcome)
		assert.Contains(t, messages[i+1].Text, "not run")
	}
	for _, c := range e.calls(res.Turn, 2) {
		assert.Zero(t, c.Attempt, "it was never claimed")
	}
}
