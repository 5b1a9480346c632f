package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		Beside: &turn.Beside{Count: 18, Calls: []turn.ToolCall{{Tool: "a", Arguments: "{\"x\":\n1}"},
			{Tool: "b", Arguments: "{}"}}}}
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

func TestAGrantSaysWhatItCovers(t *testing.T) {
	t.Parallel()
	label := func(r turn.Request, grant turn.GrantScope) string {
		r.MaxGrant = grant
		verdicts := Verdicts(r)
		i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Grant == grant })
		require.GreaterOrEqual(t, i, 0)
		parts := Describe("s", r, "")
		assert.Equal(t, Covers(r), parts[len(parts)-1].Text)
		return verdicts[i].Label + "\n" + Covers(r)
	}
	assert.Equal(t, "always go test\nc allows these commands from now on, with any further words: go test",
		label(shell(t, "go test ./..."), turn.GrantCommand))
	long := label(shell(t, strings.Repeat("go test . && git status && npm run build && cargo test && ", 3)+"ls -l"),
		turn.GrantCommand)
	assert.True(t, strings.HasPrefix(long, "always these commands\n"), long)
	assert.Contains(t, long, "git status, ")
	assert.Contains(t, long, "cargo test")
	fetch := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "local/fetch_url",
		Arguments: `{"url":"https://example.org/a"}`}
	fetch.ArgumentsHash = journal.HashOf([]byte(fetch.Arguments))
	assert.Equal(t, "always example.org\nh allows calls of this tool to example.org from now on",
		label(fetch, turn.GrantHost))
	assert.Empty(t, Covers(turn.Request{Kind: turn.RequestApproval, Tool: "mcp/a/b", Arguments: "{}",
		ArgumentsHash: journal.HashOf([]byte("{}"))}))
}
