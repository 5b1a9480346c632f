package ui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// shell returns an approval of a command whose arguments a model has encoded with HTML escapes.
func shell(t *testing.T, command string) turn.Request {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"command": command})
	require.NoError(t, err)
	return turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "local/shell", Arguments: string(arguments),
		ArgumentsHash: journal.HashOf(arguments)}
}

func TestACommandIsShownAsLines(t *testing.T) {
	r := shell(t, "ls -la && cat > x.go <<'EOF'\npackage x\n\n\tvar y\x1b\nEOF")
	require.Contains(t, r.Arguments, `\u0026\u0026`)
	parts := Describe("s", r, "")
	require.Len(t, parts, 3)
	assert.Contains(t, parts[1].Text, ShortHash(r.ArgumentsHash))
	assert.Equal(t, Part{Text: "$ ls -la && cat > x.go <<'EOF'\n  package x\n  \n      var y\x1b\n  EOF", Quoted: true},
		parts[2])
	assert.Equal(t, "→ $ ls -la && cat > x.go <<'EOF' … +4 lines",
		CallStarted(turn.CallEvent{Tool: r.Tool, Arguments: r.Arguments}))
	assert.Equal(t, `$ printf '\t' \x1b[2J`, CallText(CallOf(shell(t, "printf '\\t' \x1b[2J")), "", 80))
	r.Beside = &turn.Beside{Count: 1, Calls: []turn.ToolCall{{Tool: "local/shell", Arguments: r.Arguments}}}
	_, calls := Beside(r)
	assert.True(t, strings.HasPrefix(calls, "local/shell $ ls -la && cat"), calls)
	r.Arguments = r.Arguments[:strings.Index(r.Arguments, "026")] // cut within an escape
	assert.Equal(t, "$ ls -la", CallText(CallOf(r), "", 80))
}

// TestNothingBesideACommandIsHidden: what the lines of a command do not show is shown as JSON.
func TestNothingBesideACommandIsHidden(t *testing.T) {
	command, others, ok := Command("local/job_start", `{"command":"go test","id":"a\u0026\u001b","wait":1}`)
	assert.True(t, ok)
	assert.Equal(t, "$ go test", command)
	assert.Equal(t, `{"id":"a&\u001b","wait":1}`, others)
	for _, arguments := range []string{`{"command":"ls","command":"rm"}`, `{"command":"ls","COMMAND":"rm"}`,
		`{"command":["rm"]}`, `{"command":"ls"`, `{"command":"ls"}{}`, `{}`, `null`, ``} {
		_, _, ok := Command("local/shell", arguments)
		assert.False(t, ok, arguments)
	}
	_, _, ok = Command("mcp/x/shell", `{"command":"ls"}`)
	assert.False(t, ok, "what a server does with the argument is not known")
}

func TestArgumentsAreReadable(t *testing.T) {
	assert.Equal(t, `{"a":"<b> & \\u0026 \u001b`, Arguments(`{"a":"\u003cb\u003E \u0026 \\u0026 \u001b`))
	assert.Equal(t, `\u0026`, Arguments(`\u0026`), "it is no JSON")
}
