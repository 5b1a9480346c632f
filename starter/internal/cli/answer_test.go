package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// inquiry is what a tool's server asks.
func inquiry(schema string) journal.RequestRecord {
	return journal.RequestRecord{Session: "s", Turn: "t",
		Request: turn.Request{ID: "e2.0.1", Kind: turn.RequestElicitation, Step: 2, Tool: "mcp/git/commit", Call: "2.0",
			Elicitation: &turn.Elicitation{Key: "k", Message: "Who are you?\nquestion q9 of session s",
				Schema: json.RawMessage(schema)}}}
}

const twoFields = `{"type":"object","properties":{"name":{"type":"string","title":"Your\u001b name"},"age":{"type":"integer","minimum":0}},"required":["name"]}`

func TestQuestionsOfServersSayWhoAsksAndWhereTheAnswerGoes(t *testing.T) {
	assert.Equal(t, `elicitation e2.0.1 of session s: the server git asks during call 2.0 of mcp/git/commit
  │ Who are you?
  │ question q9 of session s
it asks for:
  │ name · Your\x1b name (text, required)
  │ age (whole number, at least 0)
the server and the journal get your answer: enter no passwords or keys
answer or decline it with
  starter answer s e2.0.1 --field name=...
  starter answer s e2.0.1 --decline`, layout{}.withCommands([]journal.RequestRecord{inquiry(twoFields)}))
	url := inquiry("")
	url.Tool, url.Elicitation.URL = "", "http://bank.example@evil.example/\u202e?"+strings.Repeat("long", 30)
	shown := layout{columns: 60}.withCommands([]journal.RequestRecord{url})
	for _, says := range []string{
		"an MCP server asks during call 2.0", `it asks you to open this address on evil.example:`,
		"  │ http://bank.example@evil.example/\\u202e?longlonglonglong\n  │ longlong",
		"warning: it is not an https address", "warning: the part before the @ is not the host",
		"open it only if you trust an MCP server", "starter answer s e2.0.1 --accept",
	} {
		assert.Contains(t, shown, says)
	}
	assert.Contains(t, layout{}.describe(inquiry("[]")), "can only be declined: reading the form: invalid schema")
	assert.Contains(t, layout{}.withCommands([]journal.RequestRecord{inquiry("[]")}), "starter answer s e2.0.1 --cancel")
	none := inquiry("")
	none.Elicitation = nil
	assert.Contains(t, layout{}.withCommands([]journal.RequestRecord{none}), "starter answer s e2.0.1 --accept")
}

func TestNoRowOfAnArgumentPassesForAWordOfTheProgram(t *testing.T) {
	w := wait(turn.RequestApproval, "1.0", strings.Repeat("x", 76)+"approval 2.0 of session s: harmless"+
		strings.Repeat("世", 50))
	lines := strings.Split(layout{columns: 80}.describe(w), "\n")
	for _, l := range lines[3:] {
		assert.True(t, strings.HasPrefix(l, bar), "%q", l)
	}
	assert.Equal(t, bar+strings.Repeat("x", 76), lines[3])
}

func TestCommandLinesAnswerServers(t *testing.T) {
	q := *inquiry(twoFields).Elicitation
	for _, c := range []struct {
		flags answerFlags
		text  string
		want  turn.ElicitationResponse
	}{
		{answerFlags{fields: []string{"name=Ann", "age=42"}}, "", turn.ElicitationResponse{Key: "k",
			Action: turn.ElicitationAccept, Content: json.RawMessage(`{"name":"Ann","age":42}`)}},
		{answerFlags{}, `{"name":"Ann"}`, turn.ElicitationResponse{Key: "k", Action: turn.ElicitationAccept,
			Content: json.RawMessage(`{"name":"Ann"}`)}},
		{answerFlags{decline: true}, "", turn.ElicitationResponse{Key: "k", Action: turn.ElicitationDecline}},
		{answerFlags{cancel: true}, "", turn.ElicitationResponse{Key: "k", Action: turn.ElicitationCancel}},
	} {
		got, err := c.flags.response(q, c.text)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for says, f := range map[string]answerFlags{
		"write name=value":                 {fields: []string{"name"}},
		"name: it is required":             {accept: true},
		`there is no field "nam" (did you`: {fields: []string{"nam=Ann"}},
		`age: "old" is not a number`:       {fields: []string{"name=Ann", "age=old"}},
	} {
		_, err := f.response(q, "")
		assert.ErrorContains(t, err, says)
	}
}

func TestPagesLeaveNothingOutAndFitTheScreen(t *testing.T) {
	a := &app{streams: streams{err: aTerminal(t)}} // a terminal that does not tell its size: 80 columns, 24 rows
	text := strings.Repeat(strings.Repeat("x", 100)+"\n", 50) + "the end"
	p := a.pagesOf(text)
	var all []string
	for left := p.left(); left > 0; left = p.left() {
		rows := strings.Split(p.next(), "\n")
		assert.LessOrEqual(t, len(rows), 22)
		for _, r := range rows {
			assert.LessOrEqual(t, len(r), 80)
		}
		all = append(all, rows...)
	}
	assert.Len(t, all, 101)
	assert.Equal(t, strings.ReplaceAll(text, "\n", ""), strings.Join(all, ""))
	assert.Equal(t, "-- 1 row more; Enter shows them, [n]o: ", (&pages{rows: []string{"x"}}).prompt())
}

func TestDecisionsOfALine(t *testing.T) {
	for in, want := range map[string]decision{
		"y": {allow: true}, "Yes": {allow: true}, "n not today": {reason: "not today"},
		"a": {allow: true, always: turn.GrantCall}, "t": {allow: true, always: turn.GrantTool},
	} {
		got, ok := parseDecision(in)
		assert.True(t, ok)
		assert.Equal(t, want, got)
	}
	for _, in := range []string{"", "perhaps", "yn"} {
		_, ok := parseDecision(in)
		assert.False(t, ok, in)
	}
}

func chunk(kind turn.ChunkKind, data any) turn.Chunk {
	b, _ := json.Marshal(data)
	return turn.Chunk{Turn: "t", Step: 1, Kind: kind, Data: b}
}

func after(seconds int64, c turn.Chunk) turn.Chunk {
	c.At = time.Unix(seconds, 0)
	return c
}

func TestProgressIsOneLineThatIsReplaced(t *testing.T) {
	progress := func(done, total float64, message string) turn.Chunk {
		return chunk(turn.ChunkToolProgress, turn.ProgressChunk{CallID: "1.0", Tool: "mcp/x/long",
			ToolProgress: turn.ToolProgress{Done: done, Total: total, Message: message}})
	}
	late := chunk(turn.ChunkToolCallLateResult,
		turn.CallChunk{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeOK, SizeBytes: 7})
	chunks := []turn.Chunk{text(1, "I go."), progress(1, 4, "load\x1b[2Jing"), progress(8, 4, strings.Repeat("far ", 40)),
		called(turn.ChunkToolCallCompleted), progress(3, 0, ""), text(1, "Done."), late}
	shown := screen(t, followOptions{output: "text"}, []string{"NO_COLOR=1"}, answered("I go.Done."), chunks...)
	assert.Equal(t, "I go.\n… mcp/x/long 25% (1 of 4) load[2Jing"+eraseLine+
		"… mcp/x/long 100% (8 of 4) far far far far far far far far far far far far far…"+eraseLine+
		"✓ local/read {\"p\":\"\\u001b[2J\"} · ok · 7 B\n… mcp/x/long 3"+eraseLine+
		"Done.\nlate result of call 1.0: ✓ mcp/x/long · ok · 7 B\n"+
		"session s · 2 steps · 0 tool calls · 0 tokens in, 0 out · cost unknown\n", shown)
	dumb := screen(t, followOptions{output: "text"}, []string{"TERM=dumb"}, answered("x"), after(1, progress(1, 4, "")),
		after(2, progress(2, 4, "")), after(9, progress(3, 4, "")))
	assert.Equal(t, 2, strings.Count(dumb, "mcp/x/long"), "a line that cannot be replaced comes every few seconds")
	assert.NotContains(t, dumb, "\x1b")

	var out, err bytes.Buffer
	play(&app{streams: streams{out: &out, err: &err}}, followOptions{output: "text"}, answered("x"), chunks...)
	assert.NotContains(t, err.String(), "mcp/x/long", "a pipe gets none of it")
	out.Reset()
	play(&app{streams: streams{out: &out}}, followOptions{output: "jsonl"}, answered("x"), progress(1, 4, ""))
	assert.Contains(t, out.String(),
		`"kind":"tool_progress","at":"0001-01-01T00:00:00Z","data":{"call_id":"1.0","tool":"mcp/x/long","done":1,"total":4}`)
}
