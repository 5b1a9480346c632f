package ui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	const all = `{"path":"a","old_string":"x","new_string":"y","replace_all":true}`
	assert.Contains(t, Diff("local/edit_file", all), "each occurrence:\n@@ -1,1 +1,1 @@\n-x\n+y")
	assert.Empty(t, Diff("mcp/x/edit", all), "what the argument means there is not known")
	for _, arguments := range []string{
		`{"path":"a","old_string":"x","new_string":"EVIL","NEW_STRING":"y"}`,
		`{"path":"a","old_string":"x","new_string":"EVIL","new_string":"y"}`,
		`{"path":"a","old_string":"x","new_string":"y","command":"rm"}`,
		`{"path":"a","old_string":"x","new_string":"y","":true}`,
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

func TestTheTextOfANewFileIsADiff(t *testing.T) {
	const text, whole = "@@ -0,0 +1,2 @@\n+x\n+    y\\x1b", "the whole text of the file:\n"
	for tool, note := range map[string]string{"local/write_file": "", "mcp/disk/write_file": whole} {
		assert.Equal(t, "--- a\n+++ a\n"+note+text, Diff(tool, `{"path":"a","content":"x\n\ty\u001b\n"}`), tool)
	}
	assert.Contains(t, Diff("local/write_file", `{"path":"a","content":"","overwrite":false}`), "@@ -0,0 +0,0 @@")
	assert.Contains(t, Diff("local/write_file", `{"path":"a","content":"x","overwrite":true}`), "the whole text of the file:\n")
	for _, tool := range []string{"mcp/disk/append", "local/fetch_url"} {
		assert.Empty(t, Diff(tool, `{"path":"a","content":"x"}`), "the tool may do something else with the text")
	}
	assert.Empty(t, Diff("local/write_file", `{"path":"a","content":"x","mode":"0777"}`))
}

// The file in the workspace gives a change its place. Whatever the file holds, all that the call changes is shown.
func TestADiffHasContextFromTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("1\n2\n3\n4\n5\n6\nx\n8\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "twice"), []byte("x\nx\n"), 0o600))
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("canary\nx\n"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	edit := func(path string) string { return `{"path":"` + path + `","old_string":"x","new_string":"y"}` }
	assert.Equal(t, "--- a.txt\n+++ a.txt\n@@ -4,5 +4,5 @@\n 4\n 5\n 6\n-x\n+y\n 8", DiffIn(dir, "local/edit_file", edit("a.txt")))
	for _, path := range []string{"none", "twice", "link", "pipe", "../secret", outside} {
		assert.Equal(t, Diff("local/edit_file", edit(path)), DiffIn(dir, "local/edit_file", edit(path)), path)
	}
	assert.NotContains(t, DiffIn(dir, "mcp/disk/edit", edit("a.txt")), " 6\n", "where another tool's files are is not known")
	const write = `{"path":"a.txt","content":"1\n2\n3\n4\n5\n6\ny\n8\n","overwrite":true}`
	assert.Contains(t, DiffIn(dir, "local/write_file", write), "@@ -4,5 +4,5 @@\n 4\n")
}

func TestTheResultOfAToolOfThisProgramIsItsDiff(t *testing.T) {
	const edit, result = `{"path":"a","old_string":"x","new_string":"y"}`, "edited a\n@@ -7,2 +7,2 @@\n w\n-x\n+y\u001b"
	assert.Equal(t, "--- a\n+++ a\n@@ -7,2 +7,2 @@\n w\n-x\n+y\\x1b", ResultDiff("local/edit_file", edit, result))
	assert.Equal(t, Diff("mcp/x/edit", edit), ResultDiff("mcp/x/edit", edit, result), "a server may say anything")
	assert.Empty(t, ResultDiff("local/fetch_url", `{"url":"https://example.com"}`, result))
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
