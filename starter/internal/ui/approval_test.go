package ui

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

func TestAVerdictIsAKeyOrAWord(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]Verdict{
		"y": {Allow: true}, "Yes": {Allow: true}, "n": {}, "NO": {}, "a": {Allow: true, Grant: turn.GrantCall},
		"tool": {Allow: true, Grant: turn.GrantTool},
	} {
		got, ok := VerdictOf(typed)
		assert.True(t, ok)
		assert.Equal(t, want, Verdict{Allow: got.Allow, Grant: got.Grant}, typed)
	}
	for _, typed := range []string{"", "perhaps", "yn"} {
		_, ok := VerdictOf(typed)
		assert.False(t, ok, typed)
	}
}

func TestAnApprovalShowsTheCallsBeside(t *testing.T) {
	t.Parallel()
	r := turn.Request{Kind: turn.RequestApproval, Tool: "mcp/a/b", Arguments: "{}", Why: "policy asks",
		Beside: &turn.Beside{Count: 18, Calls: []turn.ToolCall{{Tool: "a", Arguments: "{\"x\":\n1}"}, {Tool: "b", Arguments: "{}"}}}}
	parts := Describe("s", r, "")
	assert.Contains(t, parts[1].Text, "18")
	assert.Contains(t, parts[1].Text, "16 of them not shown")
	assert.Equal(t, Part{Text: "a {\"x\":\\n1}\nb {}", Quoted: true}, parts[2], "a line for each call")
	assert.Contains(t, parts[3].Text, "policy asks")
}

func TestACallWithoutItsArgumentsCanOnlyBeDenied(t *testing.T) {
	t.Parallel()
	r := turn.Request{Kind: turn.RequestApproval, ID: "1.0", Tool: "mcp/a/b", Arguments: "{}",
		ArgumentsHash: journal.HashOf([]byte("{}"))}
	assert.Equal(t, "allow", Verdicts(r)[0].Label)
	r.Arguments = "{"
	assert.Len(t, Verdicts(r), 1)
	assert.Equal(t, "deny", Verdicts(r)[0].Label)
	allow, _ := VerdictOf("y")
	assert.ErrorContains(t, allow.Refused(r), "can only be denied")
}
