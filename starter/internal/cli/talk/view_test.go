package talk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/tests/stdio"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func text(step int, s string) turn.Event {
	return turn.Event{Turn: "t", Step: step, Kind: turn.EventTextDelta, Text: s}
}

func restarted(step int) turn.Event {
	return turn.Event{Turn: "t", Step: step, Attempt: 2, Kind: turn.EventAttemptRestarted}
}

func called(kind turn.EventKind) turn.Event {
	data, _ := json.Marshal(turn.CallEvent{CallID: "c", Tool: "local/read", Arguments: `{"p":"\u001b[2J"}`,
		Outcome: turn.OutcomeOK, SizeBytes: 7})
	return turn.Event{Turn: "t", Step: 1, Kind: kind, Data: data}
}

func answered(s string) workflows.Result {
	return workflows.Result{Session: "s", State: turn.StateCompleted, FinishReason: turn.FinishAnswered, Answer: s,
		Steps: 2}
}

// play shows events and an ending on the streams and returns when they are written.
func play(a *app.App, o followOptions, end workflows.Result, events ...turn.Event) {
	v := newView(a, o)
	for _, e := range events {
		v.event(e)
	}
	if o.output == "text" {
		v.end(end.Answer, end)
	}
}

func TestAPipeGetsTheAnswerAndNothingElse(t *testing.T) {
	var out, err bytes.Buffer
	a := &app.App{Streams: app.Streams{Out: &out, Err: &err}, Color: app.ColorAuto}
	events := []turn.Event{text(1, "I look first."), called(turn.EventToolCallStarted),
		called(turn.EventToolCallCompleted),
		text(2, "half an ans"), restarted(2), text(2, "The \x1b[2Janswer.")}
	play(a, followOptions{output: "text"}, answered("The \x1b[2Janswer."), events...)
	assert.Equal(t, "The [2Janswer.\n", out.String())
	assert.Equal(t, "session s · 2 steps · 0 tool calls · 0 tokens in, 0 out\n", err.String())

	out.Reset()
	err.Reset()
	play(a, followOptions{output: "text", quiet: true}, answered("The answer."), events...)
	assert.Equal(t, "The answer.\n", out.String())
	assert.Empty(t, err.String())
}

func TestWhatEndsWithoutAnAnswerSaysWhy(t *testing.T) {
	var out, err bytes.Buffer
	a := &app.App{Streams: app.Streams{Out: &out, Err: &err}, Color: app.ColorAuto}
	play(a, followOptions{output: "text", quiet: true},
		workflows.Result{State: turn.StateFailed, FinishReason: turn.FinishFailed,
			Code: turn.CodeLLMRejected, Message: "no such\x1b[2J model"})
	assert.Empty(t, out.String())
	assert.Equal(t, "failed: no such[2J model (llm_rejected)\n", err.String())
}

func TestJSONLinesAreVersionedEvents(t *testing.T) {
	var out bytes.Buffer
	play(&app.App{Streams: app.Streams{Out: &out}}, followOptions{output: "jsonl"}, answered("x"), text(1, "a\u009b"),
		restarted(1))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	var e event
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &e))
	assert.Equal(t, event{Version: 1, Event: text(1, "a\u009b")}, e)
	assert.NotContains(t, lines[0], "\u009b")
}

// screen is what a terminal is sent while play runs.
func screen(t *testing.T, o followOptions, environ []string, end workflows.Result, events ...turn.Event) string {
	t.Helper()
	near, far := stdio.Pseudoterminal(t)
	shown := make(chan string)
	go func() {
		var b strings.Builder
		for in := bufio.NewReader(near); ; {
			r, _, err := in.ReadRune()
			if err != nil { // the far end is closed
				break
			}
			b.WriteRune(r)
		}
		near.Close()
		shown <- strings.ReplaceAll(b.String(), "\r\n", "\n")
	}()
	play(&app.App{Streams: app.Streams{Out: far, Err: far}, Color: app.ColorAuto, Environ: environ}, o, end, events...)
	require.NoError(t, far.Close())
	return <-shown
}

func TestATerminalSeesTextAsItComesOnce(t *testing.T) {
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("The answer."),
		text(1, "I look "), text(1, "first."), called(turn.EventToolCallStarted), called(turn.EventToolCallCompleted),
		text(2, "The "), text(2, "answer."))
	assert.Equal(t, "I look first.\n→ local/read {\"p\":\"\\u001b[2J\"}\n✓ local/read {\"p\":\"\\u001b[2J\"} · ok "+
		"· 7 B\nThe answer.\n"+
		"session s · 2 steps · 0 tool calls · 0 tokens in, 0 out\n", shown)
}

func TestATerminalIsToldOfWithdrawnText(t *testing.T) {
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("whole"), text(1, "half"),
		restarted(1), text(1, "whole"))
	assert.Equal(t, "half\nthe inference was interrupted and starts again; its text so far is withdrawn\nwhole\n"+
		"session s · 2 steps · 0 tool calls · 0 tokens in, 0 out\n", shown)
}

func TestATerminalIsToldWhatIsTriedAgain(t *testing.T) {
	failed := func(text string, e turn.ErrorEvent) turn.Event {
		data, _ := json.Marshal(e)
		return turn.Event{Turn: "t", Step: 1, Kind: turn.EventError, Text: text, Data: data}
	}
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("done"),
		failed("slow\x1b[2J down", turn.ErrorEvent{Code: turn.CodeLLMRateLimited}),
		failed("over", turn.ErrorEvent{Code: turn.CodeLLMRejected, Final: true}))
	assert.Contains(t, shown, "slow[2J down")
	assert.NotContains(t, shown, "over", "the end of the turn says it")
}

func TestAnAnswerThatWasNotStreamedIsPrinted(t *testing.T) {
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("all of it"), text(2, "of it"))
	assert.Contains(t, shown, "of it\nall of it\n", "an attach --after-event has seen only the end")
	shown = screen(t, followOptions{output: "text", quiet: true}, nil, answered("The answer."), text(1, "I look first."),
		text(2, "The answer."))
	assert.Equal(t, "The answer.\n", shown)
}

func TestOnlyTheProgramsOwnTextIsDim(t *testing.T) {
	shown := screen(t, followOptions{output: "text"}, nil, answered("The \x1b[31manswer."), text(2, "The \x1b[31manswer."))
	assert.Contains(t, shown, "The [31manswer.\n\x1b[2msession s")
}
