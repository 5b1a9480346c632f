package talk

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

func eventOf(kind turn.EventKind, data any) turn.Event {
	b, _ := json.Marshal(data)
	return turn.Event{Turn: "t", Step: 1, Kind: kind, Data: b}
}

func after(seconds int64, e turn.Event) turn.Event {
	e.At = time.Unix(seconds, 0)
	return e
}

func TestProgressIsOneLineThatIsReplaced(t *testing.T) {
	progress := func(done, total float64, message string) turn.Event {
		return eventOf(turn.EventToolProgress, turn.ProgressEvent{CallID: "1.0", Tool: "mcp/x/long",
			ToolProgress: turn.ToolProgress{Done: done, Total: total, Message: message}})
	}
	late := eventOf(turn.EventToolCallLateResult,
		turn.CallEvent{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeOK, SizeBytes: 7})
	events := []turn.Event{text(1, "I go."), progress(1, 4, "load\x1b[2Jing"), progress(8, 4, strings.Repeat("far ", 40)),
		called(turn.EventToolCallCompleted), progress(3, 0, ""), text(1, "Done."), late}
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("I go.Done."), events...)
	assert.Equal(t, "I go.\n… mcp/x/long 25% (1 of 4) load[2Jing"+eraseLine+
		"… mcp/x/long 100% (8 of 4) far far far far far far far far far far far far far…"+eraseLine+
		"✓ local/read {\"p\":\"\\u001b[2J\"} · ok · 7 B\n… mcp/x/long 3"+eraseLine+
		"Done.\nlate result of call 1.0: ✓ mcp/x/long · ok · 7 B\n"+
		"session s · 2 steps · 0 tool calls · 0 tokens in, 0 out\n", shown)
	dumb := screen(t, followOptions{output: "text"}, []string{"TERM=dumb"}, answered("x"), after(1, progress(1, 4, "")),
		after(2, progress(2, 4, "")), after(9, progress(3, 4, "")))
	assert.Equal(t, 2, strings.Count(dumb, "mcp/x/long"), "a line that cannot be replaced comes every few seconds")
	assert.NotContains(t, dumb, "\x1b")

	var out, err bytes.Buffer
	play(&app.App{Streams: app.Streams{Out: &out, Err: &err}}, followOptions{output: "text"}, answered("x"), events...)
	assert.NotContains(t, err.String(), "mcp/x/long", "a pipe gets none of it")
	out.Reset()
	play(&app.App{Streams: app.Streams{Out: &out}}, followOptions{output: "jsonl"}, answered("x"), progress(1, 4, ""))
	assert.Contains(t, out.String(),
		`"kind":"tool_progress","at":"0001-01-01T00:00:00Z","data":{"call_id":"1.0","tool":"mcp/x/long","done":1,"total":4}`)
}
