package turn_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// FuzzParseJSON checks that an answer in JSON mode is one valid action or an *InvalidAction within its bounds. An
// accepted answer is one strict object: it stays the same when it is encoded again, and any additional key is refused.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		`{"type":"final","content":"hello"}`, `{"type":"ask_user","question":"which?"}`,
		`{"type":"tool_call","name":"local_read_file","arguments":{"path":"a","n":[1,{"x":null}]}}`,
		`{"type":"tool_call","name":"local/read_file","arguments":"not an object"}`,
		`{"type":"final","content":"x","content":"y"}`, `{"type":"final","cont\u0065nt":"x"}`,
		`{"type":"tool_call","name":"a","arguments":{"p":1,"\u0070":2}}`,
		"```json\n{\"type\":\"final\",\"content\":\"x\"}\n```", `{"type":"final","content":"x"}{}`,
		`{"type":"final","content":"\ud800"}`,
		"{\"type\":\"final\",\"content\":\"\xff\"}", `{"type":"tool_call","name":"a","arguments":1e999}`, `[1,]`, `{"a":}`,
		`{"a" 1}`, `{,}`, ` null `, ``, "\x00",
		strings.Repeat(`[`, 65) + strings.Repeat(`]`, 65), strings.Repeat(`[`, 66) + strings.Repeat(`]`, 66),
		strings.Repeat("\xffa", 400),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, strict(text), turn.CheckJSON(text) == nil,
			"one value, no key twice, at most 64 deep; no input has 65,536 values")
		action, err := turn.Parse(turn.ModeJSON, 3, turn.Completion{Text: text}, tools)
		if err != nil {
			require.Nil(t, action, "an answer is an action or invalid, never both")
			requireInvalid(t, err)
			return
		}
		require.True(t, strict(text))
		again, err := turn.Parse(turn.ModeJSON, 3, turn.Completion{Text: written(t, action)}, tools)
		require.NoError(t, err)
		require.Equal(t, action, again, "what is written again says the same")
		inner := strings.TrimSpace(text)[1:]
		for _, bad := range []string{`{"more":1,` + inner, `{"type":"final",` + inner, `{"Type":"final",` + inner,
			text + "{}", "so: " + text, text[:len(strings.TrimRight(text, " \t\r\n"))-1]} {
			_, err := turn.Parse(turn.ModeJSON, 3, turn.Completion{Text: bad}, tools)
			requireInvalid(t, err)
		}
	})
}

// written encodes an action in the JSON protocol. Arguments keep their original text.
func written(t *testing.T, a turn.Action) string {
	t.Helper()
	var fields map[string]any
	switch a := a.(type) {
	case turn.Final:
		require.NotEmpty(t, strings.TrimSpace(a.Text))
		fields = map[string]any{"type": "final", "content": a.Text}
	case turn.AskUser:
		require.NotEmpty(t, strings.TrimSpace(a.Question))
		fields = map[string]any{"type": "ask_user", "question": a.Question}
	case turn.CallTools:
		require.Len(t, a.Calls, 1, "one call an answer")
		require.Equal(t, turn.CallID(3, 0), a.Calls[0].ID)
		require.NoError(t, turn.CheckJSON(a.Calls[0].Arguments))
		name, err := json.Marshal(a.Calls[0].Tool)
		require.NoError(t, err)
		return fmt.Sprintf(`{"arguments":%s,"name":%s,"type":"tool_call"}`, a.Calls[0].Arguments, name)
	default:
		require.Failf(t, "an action outside of the closed set", "%T", a)
	}
	b, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(b)
}

// strict is an independent version of CheckJSON: a valid text without duplicate keys has as many colons outside of
// strings as its decoded value has keys.
func strict(s string) bool {
	if !json.Valid([]byte(s)) {
		return false
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return false
	}
	keys, depth := measure(v, 0)
	return keys == colons(s) && depth <= 64
}

// measure counts the keys in v and returns the depth of its deepest value below the outermost one.
func measure(v any, depth int) (keys, deepest int) {
	deepest = depth
	visit := func(e any) {
		k, d := measure(e, depth+1)
		keys, deepest = keys+k, max(deepest, d)
	}
	switch v := v.(type) {
	case map[string]any:
		keys = len(v)
		for _, e := range v {
			visit(e)
		}
	case []any:
		for _, e := range v {
			visit(e)
		}
	}
	return keys, deepest
}

// colons counts the colons outside of strings in a valid JSON text.
func colons(s string) int {
	n, inside := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case inside && s[i] == '\\':
			i++
		case s[i] == '"':
			inside = !inside
		case s[i] == ':' && !inside:
			n++
		}
	}
	return n
}

// requireInvalid checks that an answer was refused with a text that is fit for the history and the model.
func requireInvalid(t *testing.T, err error) {
	t.Helper()
	var inv *turn.InvalidAction
	require.ErrorAs(t, err, &inv)
	require.Equal(t, 3, inv.Step)
	require.NotEmpty(t, inv.Kind)
	require.NotEmpty(t, inv.Reason)
	require.LessOrEqual(t, len(inv.Reason), 512, "the reason is bounded: %s", inv.Reason)
	require.LessOrEqual(t, len(inv.Raw), turn.ArgumentsPreview)
	require.LessOrEqual(t, len(inv.Arguments), turn.ArgumentsPreview)
	require.True(t, utf8.ValidString(inv.Name+inv.Reason+inv.Raw+inv.Arguments))
}

// FuzzParseNative checks that native calls come out complete, in order, byte for byte, and with distinct IDs. ask_user
// must be the only call; without calls the text is the answer.
func FuzzParseNative(f *testing.F) {
	f.Add(byte(0), "hello", "", "", "", "", "", "")
	f.Add(byte(0), " \n", "", "", "", "", "", "")
	f.Add(byte(1), "", "x", turn.AskUserTool, `{"question":"which?"}`, "", "", "")
	f.Add(byte(1), "", "x", turn.AskUserTool, `{"question":"which?","question":"that?"}`, "", "", "")
	f.Add(byte(1), "", "x", turn.AskUserTool, strings.Repeat("\xff{", 600), "", "", "")
	f.Add(byte(2), "let me see", "x", "local_read_file", `{"path":"a"}`, "x", "nope", "\x00")
	f.Add(byte(2), "", "x", "local_read_file", `{}`, "", turn.AskUserTool, `{"question":"which?"}`)
	f.Add(byte(3), "", "", "a", "", "call_3_0", "b", "")
	f.Add(byte(2), "", "call_3_1", "a", "", "", "b", "")
	f.Add(byte(4), "", "call_3_2", "a", "", "call_3_2", "b", "")
	f.Add(byte(2), "", strings.Repeat("i", 65), "a", "{", "\xff", "", "}")
	f.Fuzz(func(t *testing.T, n byte, text, id1, name1, args1, id2, name2, args2 string) {
		both := []turn.ToolCall{{WireID: id1, Tool: name1, Arguments: args1}, {WireID: id2, Tool: name2, Arguments: args2}}
		calls := make([]turn.ToolCall, n%8)
		asks := 0
		for i := range calls {
			calls[i] = both[i%2]
			if calls[i].Tool == turn.AskUserTool {
				asks++
			}
		}
		action, err := turn.Parse(turn.ModeNative, 3, turn.Completion{Text: text, ToolCalls: calls}, tools)
		if err != nil {
			require.Nil(t, action)
			requireInvalid(t, err)
			require.True(t, asks > 0 || len(calls) == 0 && strings.TrimSpace(text) == "", "nothing else is refused here")
			return
		}
		switch a := action.(type) {
		case turn.Final:
			require.Empty(t, calls)
			require.Equal(t, text, a.Text)
		case turn.AskUser:
			require.Len(t, calls, 1)
			require.Equal(t, 1, asks)
			require.True(t, strict(calls[0].Arguments))
			require.NotEmpty(t, strings.TrimSpace(a.Question))
		case turn.CallTools:
			require.Zero(t, asks)
			requireCalls(t, calls, a.Calls)
		default:
			require.Failf(t, "an action outside of the closed set", "%T", a)
		}
	})
}

func requireCalls(t *testing.T, sent []turn.ToolCall, calls []turn.ToolCall) {
	t.Helper()
	require.Len(t, calls, len(sent))
	wires := map[string]bool{}
	for i, c := range calls {
		require.Equal(t, turn.CallID(3, i), c.ID)
		if strings.TrimSpace(sent[i].Arguments) == "" {
			require.Equal(t, "{}", c.Arguments, "no arguments are an empty object")
		} else {
			require.Equal(t, sent[i].Arguments, c.Arguments)
		}
		require.NotEmpty(t, c.WireID)
		require.LessOrEqual(t, len(c.WireID), 64, "providers take no more")
		require.False(t, wires[c.WireID], "two calls are called %q: the provider cannot tell their results apart", c.WireID)
		wires[c.WireID] = true
		want := sent[i].Tool
		if want == tools[0].Wire {
			want = tools[0].ID
		}
		require.Equal(t, want, c.Tool)
	}
}
