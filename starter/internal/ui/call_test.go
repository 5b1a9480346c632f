package ui_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

func TestCallsInOneLine(t *testing.T) {
	for want, c := range map[string]turn.CallEvent{
		"✓ x {} · ok · 34 kB · 1.5s": {Tool: "x", Arguments: "{}", Outcome: turn.OutcomeOK,
			SizeBytes: 34_200, DurationMS: 1_500},
		"✗ x · denied": {Tool: "x", Outcome: turn.OutcomeDenied},
		"? x · unknown: it may or may not have taken effect": {Tool: "x", Outcome: turn.OutcomeUnknown},
		"✗ x · error (tool_drift: `everturn tools diff` shows the quarantined tools)": {Tool: "x",
			Outcome: turn.OutcomeError, Code: turn.CodeToolDrift},
		"✗ $ go test ./... · exit 1 · 9 B": {Tool: "local/shell", Arguments: `{"command":"go test ./..."}`,
			Outcome: turn.OutcomeError, Preview: "[exit code 1]\nFAIL\n", SizeBytes: 9},
		"✗ mcp/x/shell · error": {Tool: "mcp/x/shell", Outcome: turn.OutcomeError, Preview: "[exit code 1]"},
		"· [2Jx · [2Jodd":       {Tool: "\x1b[2Jx", Outcome: "\x1b[2Jodd"},
	} {
		assert.Equal(t, want, ui.CallEnded(c, nil))
	}
	assert.Equal(t, `→ x {"a":1}… (90 bytes)`,
		ui.CallStarted(turn.CallEvent{Tool: "x", Arguments: `{"a":1}`, ArgumentsBytes: 90}))
	assert.Equal(t, " [image/png, 34 kB]", ui.Media([]turn.Media{{Type: "image/\x1bpng", Bytes: 34_200}}))
}

func TestKnownCallsHaveLabels(t *testing.T) {
	for want, c := range map[string]turn.CallEvent{
		"read color.go": {Tool: "local/read_file", Arguments: `{"path":"color.go","offset":7}`},
		"edit color.go +2 -1": {Tool: "local/edit_file",
			Arguments: `{"path":"color.go","old_string":"x","new_string":"y\nz"}`},
		"edit a": {Tool: "local/edit_file",
			Arguments: `{"path":"a","old_string":"x","new_string":"y","replace_all":true}`},
		"write a +1":                 {Tool: "local/write_file", Arguments: `{"path":"a","content":"x"}`},
		"write b":                    {Tool: "local/write_file", Arguments: `{"path":"b","content":"x`, ArgumentsBytes: 70_000},
		"list .":                     {Tool: "local/list_files", Arguments: `{}`},
		`search "a b" in x`:          {Tool: "local/search_text", Arguments: `{"query":"a b","path":"x"}`},
		`fetch https://a\u200b.b/c`:  {Tool: "local/fetch_url", Arguments: `{"url":"https://a\u200b.b/c"}`},
		`$ make &`:                   {Tool: "local/job_start", Arguments: `{"command":"make"}`},
		`local/read_file {"x":1}`:    {Tool: "local/read_file", Arguments: `{"x":1}`},
		`mcp/d/read_file {"path":1}`: {Tool: "mcp/d/read_file", Arguments: `{"path":1}`},
	} {
		assert.Equal(t, want, ui.CallText(c, "", 80))
	}
	edit := turn.CallEvent{Tool: "local/edit_file", Arguments: `{"path":"a","old_string":"x","new_string":"y"}`}
	const diff = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n--- x\n+y"
	assert.Equal(t, "edit a +1 -2", ui.CallText(edit, diff, 80), "the diff of the result wins")
}

func TestProgressInWords(t *testing.T) {
	for want, p := range map[string]turn.ToolProgress{
		"50% (1 of 2) half done": {Done: 1, Total: 2, Message: "half\u00a0done"},
		"0% (-1 of 2)":           {Done: -1, Total: 2},
		"1e+09":                  {Done: 1e9},
	} {
		assert.Equal(t, want, ui.Progress(p))
	}
}

func TestTotalsCountInWords(t *testing.T) {
	for want, u := range map[string]turn.Usage{
		"1,000 tokens in, 2 out (estimated) · cost unknown": {InputTokens: 1000, OutputTokens: 2, Estimated: true,
			Unpriced: true},
		"1,000 tokens in (800 cached), 2,000 out (1,500 reasoning) · $0.0012": {InputTokens: 1000, CachedTokens: 800,
			OutputTokens: 2000, ReasoningTokens: 1500, Cost: turn.Dollar * 12 / 10_000},
		"1 token in, 1 out · at least $2.00": {InputTokens: 1, OutputTokens: 1, Unpriced: true, Cost: 2 * turn.Dollar},
		"1 token in, 1 out · $0.00":          {InputTokens: 1, OutputTokens: 1}, // of a model without charge
		"0 tokens in, 0 out":                 {},
	} {
		assert.Equal(t, "1 step · 2 tool calls · "+want, ui.Totals(1, 2, u))
	}
}
