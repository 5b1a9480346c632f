package ui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A diff that shows less than the whole call hides what the call does.
func TestOnlyAWholeCallIsShownAsADiff(t *testing.T) {
	for _, arguments := range []string{
		`{"path":"a","old_string":"x","new_string":"y"}`,
		`{"file_path":"a","edits":[{"oldText":"x","newText":"y"}]}`,
	} {
		assert.Contains(t, Diff("mcp/x/edit", arguments), "\n-x\n+y", arguments)
	}
	for _, arguments := range []string{
		`{"path":"a","old_string":"x","new_string":"EVIL","NEW_STRING":"y"}`,
		`{"path":"a","old_string":"x","new_string":"EVIL","new_string":"y"}`,
		`{"path":"a","old_string":"x","new_string":"y","command":"rm"}`,
		`{"path":"a","file_path":"b","old_string":"x","new_string":"y"}`,
		`{"path":"a","command":"rm","diff":"@@ -1 +1 @@\n-x\n+y"}`,
		`{"path":"a","edits":[{"oldText":"x","newText":"y"}],"dryRun":false}`,
		`{"path":"a","edits":[{"oldText":"x","newText":"y","at":3}]}`,
		`{"path":"a","edits":[7]}`, `{"path":7,"old_string":"x","new_string":"y"}`, `{"path":"a"}`, `["a"]`, `{"path"`, ``,
		`{"path":"a","old_string":"x","new_string":"y"`, `{"path":"a","old_string":"x","new_string":"y"}]`,
		`{"path":"a","old_string":"x","new_string":"y"}{"command":"rm"}`,
	} {
		assert.Empty(t, Diff("mcp/x/edit", arguments), arguments)
	}
}

// TestADiffNamesTheFileOfTheCall draws patches that name another file than the call does: the tool changes the call's.
func TestADiffNamesTheFileOfTheCall(t *testing.T) {
	const hunk = "@@ -1 +1 @@\n-x\n+y"
	for _, header := range []string{"", "--- a/docs/README.md\n+++ b/docs/README.md\n", "docs/README.md:\n"} {
		arguments, err := json.Marshal(map[string]string{"path": "sub/server.py", "patch": header + hunk + "\n"})
		require.NoError(t, err)
		for _, tool := range patches {
			assert.Equal(t, "--- sub/server.py\n+++ sub/server.py\n"+hunk, Diff(tool, string(arguments)))
		}
		assert.Empty(t, Diff("mcp/x/patch", string(arguments)), "which file another tool changes is not known")
	}
	arguments, err := json.Marshal(map[string]string{"path": "a\n@@ -1 +1 @@\n-x\n+harmless\n", "old_string": "x",
		"new_string": "EVIL"})
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(Diff("local/edit_file", string(arguments)), "\n@@ "), "a path draws no hunk")
}

// A line that is split can turn the rest of a comment into a command.
func TestALineBreakThatAppearsIsShown(t *testing.T) {
	for _, arguments := range []string{
		`{"path":"a","old_string":"# clean: ","new_string":"# clean: \n"}`,
		`{"path":"a","edits":[{"oldText":"x","newText":"y"},{"oldText":"# clean: \n","newText":"# clean: "}]}`,
	} {
		assert.Contains(t, Diff("local/edit_file", arguments), "No newline at end", arguments)
	}
}
