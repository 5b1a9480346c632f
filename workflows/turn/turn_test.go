package turn_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

var tools = []turn.Tool{{ID: "local/read_file", Wire: "local_read_file"}}

func TestParseTakesExactlyOneJSONAction(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want turn.Action
		err  turn.InvalidKind
	}{
		"final":       {text: `{"type":"final","content":"hello"}`, want: turn.Final{Text: "hello"}},
		"white space": {text: "\n {\"type\":\"final\",\"content\":\"hello\"} \n", want: turn.Final{Text: "hello"}},
		"question":    {text: `{"type":"ask_user","question":"which?"}`, want: turn.AskUser{Question: "which?"}},
		"call": {text: `{"type":"tool_call","name":"local_read_file","arguments":{"path":"a"}}`,
			want: turn.CallTools{Calls: []turn.ToolCall{
				{ID: "3.0", WireID: "call_3_0", Tool: "local/read_file", Arguments: `{"path":"a"}`}}}},
		"plain text": {text: `I think so`, err: turn.InvalidJSON},
		"fenced":     {text: "```json\n{\"type\":\"final\",\"content\":\"x\"}\n```", err: turn.InvalidJSON},
		"two objects": {text: `{"type":"final","content":"x"}{"type":"final","content":"y"}`,
			err: turn.InvalidJSON},
		"duplicate keys":     {text: `{"type":"final","content":"x","content":"y"}`, err: turn.InvalidJSON},
		"duplicate, nested":  {text: `{"type":"tool_call","name":"a","arguments":{"p":1,"p":2}}`, err: turn.InvalidJSON},
		"half":               {text: `{"type":"final","cont`, err: turn.InvalidJSON},
		"unknown key":        {text: `{"type":"final","content":"x","mood":"good"}`, err: turn.InvalidUnknownField},
		"unknown type":       {text: `{"type":"dance"}`, err: turn.InvalidUnknownType},
		"no arguments":       {text: `{"type":"tool_call","name":"a"}`, err: turn.InvalidMissingField},
		"case is not folded": {text: `{"Type":"final","content":"x"}`, err: turn.InvalidMissingField},
		"not an object":      {text: `["final"]`, err: turn.InvalidJSON},
		"nothing":            {text: ``, err: turn.InvalidEmpty},
		"empty content":      {text: `{"type":"final","content":" "}`, err: turn.InvalidField},
		"too deep":           {text: strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), err: turn.InvalidJSON},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := turn.Parse(turn.ModeJSON, 3, turn.Completion{Text: c.text}, tools)
			if c.err == "" {
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
				return
			}
			var invalid *turn.InvalidAction
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, c.err, invalid.Kind, invalid.Reason)
			assert.Equal(t, 3, invalid.Step)
		})
	}
}

func TestParseNativeGivesEveryCallAnUnambiguousID(t *testing.T) {
	c := turn.Completion{ToolCalls: []turn.ToolCall{
		{WireID: "x", Tool: "local_read_file", Arguments: `{}`}, {WireID: "x", Tool: "nope", Arguments: `{}`},
		{Tool: "nope"}}}
	got, err := turn.Parse(turn.ModeNative, 2, c, tools)
	require.NoError(t, err)
	calls := got.(turn.CallTools).Calls
	assert.Equal(t, []string{"x", "call_2_1", "call_2_2"}, []string{calls[0].WireID, calls[1].WireID, calls[2].WireID})
	assert.Equal(t, []string{"2.0", "2.1", "2.2"}, []string{calls[0].ID, calls[1].ID, calls[2].ID})
	assert.Equal(t, []string{"local/read_file", "nope", "nope"}, []string{calls[0].Tool, calls[1].Tool, calls[2].Tool})
}

func TestParseNativeTakesNoArgumentsForAnEmptyObject(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"", " \n"} {
		action, err := turn.Parse(turn.ModeNative, 1,
			turn.Completion{ToolCalls: []turn.ToolCall{{WireID: "a", Tool: "now", Arguments: none}}}, nil)
		require.NoError(t, err)
		assert.Equal(t, "{}", action.(turn.CallTools).Calls[0].Arguments)
	}
}

func TestParseNativeRefusesNothingAndCrowdedQuestions(t *testing.T) {
	kind := func(c turn.Completion) turn.InvalidKind {
		_, err := turn.Parse(turn.ModeNative, 1, c, tools)
		var invalid *turn.InvalidAction
		require.ErrorAs(t, err, &invalid)
		return invalid.Kind
	}
	assert.Equal(t, turn.InvalidEmpty, kind(turn.Completion{Text: "  "}))
	ask := turn.ToolCall{Tool: turn.AskUserTool, Arguments: `{"question":"which?"}`}
	got, err := turn.Parse(turn.ModeNative, 1, turn.Completion{ToolCalls: []turn.ToolCall{ask}}, tools)
	require.NoError(t, err)
	assert.Equal(t, turn.AskUser{Question: "which?"}, got)
	assert.Equal(t, turn.InvalidQuestionNotAlone,
		kind(turn.Completion{ToolCalls: []turn.ToolCall{ask, {Tool: "nope"}}}))
}

func TestJSONOverABoundIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[0" + strings.Repeat(",0", 1<<16) + "]":          "more than 65536 values",
		strings.Repeat("[", 66) + strings.Repeat("]", 66): "nested over 64 deep",
		"{" + strings.Repeat(`"a":0,`, 2) + "}":           "is repeated",
		strings.Repeat(`{"a":`, 1<<20):                    "nested over 64 deep",
		"[" + strings.Repeat("[],", 1<<20):                "more than 65536 values",
	} {
		require.ErrorContains(t, turn.CheckJSON(text), want)
	}
	require.NoError(t, turn.CheckJSON("[0"+strings.Repeat(",0", 1<<16-2)+"]"))
}

func TestPartialAnswersInJSONMode(t *testing.T) {
	for text, want := range map[string]turn.Partial{
		`{"type":"final","content":"half`:            {Text: "half"},
		`{"type":"final","content":"ha\`:             {Text: `ha`},
		`{"type":"final","content":"ha\u00e`:         {Text: "ha"},
		`{"type":"final","content":"all"`:            {Text: "all"},
		`{"type":"final","content":"all"}`:           {Text: "all"},
		`{"content":"half, of an unknown `:           {Action: true},
		`{"type":"final","content":"`:                {Action: true},
		`{"type":"tool_call","name":"local_read_fil`: {Action: true},
		`{"type":"ask_user","question":"Wh`:          {Action: true},
		`I cannot do that.`:                          {Text: "I cannot do that."},
		``:                                           {},
	} {
		assert.Equal(t, want, turn.ParsePartial(turn.ModeJSON, 1, turn.Completion{Text: text}, nil), text)
	}
}

func TestWindowIsCutInBlocks(t *testing.T) {
	l := turn.DefaultLimits()
	from, cuts := int64(1), 0
	for head := int64(1); head <= 1000; head += 2 { // a hop adds a call and its result
		next := turn.Window(from, head, l)
		if next != from {
			cuts++
			assert.Equal(t, int64(l.KeptMessages()), head-next+1)
		}
		from = next
		assert.LessOrEqual(t, head-from+1, int64(l.MaxHistoryMessages))
	}
	assert.LessOrEqual(t, cuts, 50, "at most once in ten hops")
	assert.Greater(t, cuts, 40)
}

func TestRenderNeverBeginsWithAResultWithoutItsCall(t *testing.T) {
	window := []turn.Message{{Role: turn.RoleTool, CallID: "1.0"}, {Role: turn.RoleTool, CallID: "1.1"},
		{Role: turn.RoleAssistant, Text: "so"}}
	p := turn.Render(turn.PromptSpec{Mode: turn.ModeNative}, turn.PromptConfig{},
		&turn.Message{Role: turn.RoleUser, Text: "why?"}, window)
	require.Len(t, p.Messages, 2)
	assert.Equal(t, "why?", p.Messages[0].Text)
	assert.Equal(t, "so", p.Messages[1].Text)
}

func TestRenderInJSONModeNeedsNoNativeTools(t *testing.T) {
	promptConfig := turn.PromptConfig{System: "be brief",
		Descriptors: []turn.Descriptor{{ID: "local/read_file", Wire: "local_read_file", Description: "reads",
			Schema: []byte(`{"type":"object"}`)}}}
	window := []turn.Message{
		{Role: turn.RoleAssistant,
			ToolCalls: []turn.ToolCall{{ID: "1.0", Tool: "local/read_file", Arguments: `{"path":"a"}`}}},
		{Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK, Text: "content"}}
	p := turn.Render(turn.PromptSpec{Mode: turn.ModeJSON}, promptConfig, nil, window)
	assert.Empty(t, p.Tools)
	assert.Contains(t, p.System, "be brief")
	assert.Contains(t, p.System, "local_read_file: reads")
	assert.Equal(t, turn.RoleUser, p.Messages[1].Role)
	assert.Equal(t, `{"type":"tool_call","name":"local/read_file","arguments":{"path":"a"}}`, p.Messages[0].Text)
	assert.Contains(t, p.Messages[1].Text, "content")
}

// Providers cache prompts by their first bytes: what changes from day to day comes after what does not.
func TestTheEnvironmentEndsTheSystemPrompt(t *testing.T) {
	for _, mode := range []turn.Mode{turn.ModeNative, turn.ModeJSON} {
		for _, system := range []string{"be brief\n", ""} {
			cfg := turn.PromptConfig{System: system, OutputSchema: []byte(`{}`)}
			before := turn.Render(turn.PromptSpec{Mode: mode}, cfg, nil, nil)
			cfg.Environment = "Today's date: Monday"
			p := turn.Render(turn.PromptSpec{Mode: mode}, cfg, nil, nil)
			assert.Equal(t, before.System+"\n\nToday's date: Monday", p.System)
			assert.Equal(t, before.System, strings.TrimSuffix(p.System, p.Environment), "tapes leave it out")
		}
	}
}

// TestACatalogueIsBounded renders the note about an unknown tool of a turn with many tools.
func TestACatalogueIsBounded(t *testing.T) {
	var c turn.PromptConfig
	for i := range 2000 {
		c.Descriptors = append(c.Descriptors, turn.Descriptor{Wire: fmt.Sprintf("tool_%04d", i),
			Description: strings.Repeat("d", 100), Schema: []byte(`{"type":"object"}`)})
	}
	note := func(catalogue bool) string {
		return turn.Render(turn.PromptSpec{Mode: turn.ModeNative, Note: "no.", Catalogue: catalogue}, c, nil, nil).Note
	}
	assert.Equal(t, "no.", note(false))
	got := note(true)
	assert.Less(t, len(got), 16<<10)
	for _, part := range []string{"no.", "tool_0000: d", `{"type":"object"}`, " tool_0100", " more"} {
		assert.Contains(t, got, part)
	}
	c.Descriptors[1].Schema = []byte(strings.Repeat(" ", 1<<20))
	assert.Less(t, len(note(true)), 16<<10)
	assert.Contains(t, note(true), "tool_0002: d", "a large schema does not displace the other tools")
	c.Descriptors = nil
	assert.Contains(t, note(true), "no tools")
}

func TestLimitsStopEveryRunaway(t *testing.T) {
	l := turn.DefaultLimits()
	l.MaxTokens = 1000
	for reason, c := range map[turn.FinishReason]turn.Counters{
		turn.FinishMaxSteps:  {Spent: l.MaxSteps},
		turn.FinishMaxErrors: {ConsecutiveErrors: 3},
		turn.FinishTimeout:   {Busy: l.TurnTimeout},
		turn.FinishMaxTokens: {Usage: turn.Usage{InputTokens: 900, OutputTokens: 100}},
	} {
		no := turn.CheckInferenceLimits(l, c)
		require.NotNil(t, no, reason)
		assert.Equal(t, reason, no.Reason)
	}
	assert.Nil(t, turn.CheckInferenceLimits(l, turn.Counters{Spent: l.MaxSteps - 1, ConsecutiveErrors: 2}))
	assert.Nil(t, turn.CheckCallLimits(l, turn.Counters{ToolCalls: l.MaxToolCalls - 1}, 1))
	assert.Equal(t, turn.FinishMaxToolCalls, turn.CheckCallLimits(l,
		turn.Counters{ToolCalls: l.MaxToolCalls - 1}, 2).Reason)
}

func TestPolicyPermits(t *testing.T) {
	p := turn.DefaultPolicy()
	p.Deny, p.Ask = []string{"mcp/files/delete_*"}, []string{"mcp/mail/*"}
	for id, want := range map[string]turn.Permission{
		"local/read_file": turn.Allow, "mcp/files/read": turn.Allow, "mcp/files/delete_all": turn.Deny,
		"mcp/mail/send": turn.Ask, "agent/other": turn.Deny,
	} {
		got := p.Permit(turn.Tool{ID: id, Risk: turn.RiskLow}, nil)
		assert.Equal(t, want, got.Permission, "%s: %s", id, got.Why)
	}
	assert.Equal(t, turn.Ask, p.Permit(turn.Tool{ID: "local/x", Risk: turn.RiskHigh}, nil).Permission)
	assert.Equal(t, turn.Ask, p.Permit(turn.Tool{ID: "local/x"}, nil).Permission, "a risk that nobody named is a high one")
}

func TestAServerCannotClaimTheWireNameOfAnothersTool(t *testing.T) {
	assert.NotEqual(t, turn.WireName("mcp/gh/api_send"), turn.WireName("mcp/gh_api/send"))
	for _, theirs := range []string{"mcp/gh_api/send", "mcp/gh_/x", "mcp/a_b/" + strings.Repeat("n", 100)} {
		name := turn.WireName(theirs)
		server, tool, _ := strings.Cut(strings.TrimPrefix(name, "mcp_"), "_")
		claimed := "mcp/" + server + "/" + tool // reads like their ID, including the hash
		assert.NotEqual(t, name, turn.WireName(claimed), "%s and %s", theirs, claimed)
	}
}

func TestWireNamesAreAcceptedByProvidersAndNeverCollide(t *testing.T) {
	ids := []string{"local/a_b", "local/a/b", "mcp/a/b", "mcp/a_b/c", "mcp/a/b_c", "mcp/a/b/c", "mcp/a/b.c", "mcp/a/b c",
		"local/é",
		"mcp/a/" + strings.Repeat("x", 80), "mcp/a/" + strings.Repeat("x", 81), ""}
	seen := map[string]string{}
	for _, id := range ids {
		name := turn.WireName(id)
		assert.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, name)
		assert.Empty(t, seen[name], "%q and %q share %q", id, seen[name], name)
		seen[name] = id
	}
	assert.Equal(t, "local_read_file", turn.WireName("local/read_file"))
	assert.Equal(t, "mcp_files_read_text", turn.WireName("mcp/files/read_text"))
}

func TestCutKeepsWholeRunes(t *testing.T) {
	assert.Equal(t, "abc", turn.Truncate("abc", 3))
	assert.Equal(t, "…", turn.Truncate("äöü", 4))
	assert.Equal(t, "ab\uFFFD", turn.Truncate("ab\xff", 10))
}

func TestReaderSeesExactlyTheFinalText(t *testing.T) {
	var r turn.Reader
	for _, e := range []turn.Event{
		{Kind: turn.EventTextDelta, Step: 1, Text: "let me look"},
		{Kind: turn.EventTextDelta, Step: 2, Text: "the ans"},
		{Kind: turn.EventAttemptRestarted, Step: 2},
		{Kind: turn.EventTextDelta, Step: 2, Text: "the "},
		{Kind: turn.EventTextDelta, Step: 2, Text: "answer"},
	} {
		withdrawn := r.Add(e)
		assert.Equal(t, e.Kind == turn.EventAttemptRestarted, withdrawn)
	}
	assert.Equal(t, "the answer", r.Text())
}

// TestIllegalTransitionsDoNotCompile shows the compiler's error: a phase has no method for an illegal step.
func TestIllegalTransitionsDoNotCompile(t *testing.T) {
	for name, c := range map[string]struct{ code, want string }{
		"Start cannot call tools":        {`var s turn.Start; s.CallTool(nil)`, "s.CallTool undefined"},
		"LlmInfer cannot call tools":     {`var i turn.LlmInfer; i.CallTool(nil)`, "i.CallTool undefined"},
		"CallTool cannot infer unasked":  {`var c turn.CallTool; c.LlmInfer()`, "c.LlmInfer undefined"},
		"Done goes nowhere":              {`var d turn.Done; d.BuildPrompt()`, "d.BuildPrompt undefined"},
		"a phase of one's own is none":   {`type mine struct{}; var _ turn.Phase = mine{}`, "does not implement turn.Phase"},
		"the same program is fine as is": {`var s turn.Start; _ = s.BuildPrompt`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := compile(t, "package main\n\nimport \"github.com/everturn/everturn/workflows/turn\"\n\nfunc main() {\n"+c.code+
				"\n}\n")
			if c.want == "" {
				assert.Empty(t, out)
				return
			}
			assert.Contains(t, out, c.want)
		})
	}
}

// compile builds a program against this module and returns the compiler's output.
func compile(t *testing.T, src string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(src), 0o600))
	cmd := exec.Command("go", "vet", file)
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	out, _ := cmd.CombinedOutput()
	return string(out)
}
