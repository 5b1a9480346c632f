package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestACommandRunsIsolated lets the demo model run commands in the workspace. They need an approval, unless a rule or a
// grant allows them, and a machine that can isolate them.
func TestACommandRunsIsolated(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[shell]\nenabled = true\n[policy.commands]\nallow = [\"pwd\"]\n"+
		"deny = [\"git push\"]\n")
	doctor := h.everturn("doctor", "-o", "json").out.String()
	if strings.Contains(doctor, "not offered") {
		require.Empty(t, os.Getenv("EVERTURN_BWRAP_REQUIRED"), doctor)
		t.Skip("no command can be isolated on this machine: " + doctor)
	}
	h.worker()
	asked := h.everturn("run", "-s", "commands", `call local/shell {"command":"ls; cat agent.toml"}`).exits(6)
	assert.Contains(t, asked.err.String(), "agent.toml")
	h.everturn("approve", "commands", "1.0", "-y", "--always", "command").exits(0)
	output := h.everturn("attach", "commands").exits(0).out.String()
	assert.Contains(t, output, "[exit code 1]")
	assert.Contains(t, output, "Permission denied")
	again := h.everturn("run", "-s", "commands", `call local/shell {"command":"ls -a; cat none"}`).exits(0)
	assert.Contains(t, again.out.String(), "No such file", "its commands were allowed for the session")
	h.everturn("run", "-s", "not-allowed", `call local/shell {"command":"ls -a"}`).exits(6)
	allowed := h.everturn("run", "-s", "allowed", `call local/shell {"command":"pwd && echo done"}`).exits(0)
	assert.Contains(t, allowed.out.String(), "[exit code 0]")
	denied := h.everturn("run", "-s", "command-denied", `call local/shell {"command":"sh -c 'git push'"}`).exits(0)
	assert.Contains(t, denied.out.String(), "policy denies")
}

// TestFilesAreWritten lets the demo model write, edit and delete a file of the workspace. The approval of an edit shows
// the change, and an edit whose text is gone meanwhile changes nothing.
func TestFilesAreWritten(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[local_files]\nwrite = true\n[policy]\nask = [\"local/edit_file\"]\n")
	h.worker()
	h.everturn("run", "write notes/one.txt: first line").exits(0)
	file := filepath.Join(h.dir, "notes/one.txt")
	text := func() string {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(b)
	}
	assert.Equal(t, "first line\n", text())

	const edit = `call local/edit_file {"path":"notes/one.txt","old_string":"first","new_string":"second"}`
	asked := h.everturn("run", "-s", "edit", edit).exits(6)
	for _, part := range []string{"-first", "+second"} {
		assert.Contains(t, asked.err.String(), part)
	}
	assert.Equal(t, "first line\n", text())
	require.NoError(t, os.WriteFile(file, []byte("other\n"), 0o600))
	h.everturn("approve", "edit", "1.0", "-y").exits(0)
	assert.Contains(t, h.everturn("attach", "edit").exits(0).out.String(), "does not contain old_string")
	assert.Equal(t, "other\n", text(), "the text that was approved is gone")

	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	h.everturn("run", "-s", "again", edit).exits(6)
	h.everturn("approve", "again", "1.0", "-y").exits(0)
	h.everturn("attach", "again").exits(0)
	assert.Equal(t, "second\n", text())

	h.everturn("run", "-s", "delete", `call local/delete_file {"path":"notes/one.txt"}`).exits(6) // deleting is of high risk
	h.everturn("approve", "delete", "1.0", "-y").exits(0)
	h.everturn("attach", "delete").exits(0)
	assert.NoFileExists(t, file)
}

// TestToolsDoNotReachTheConfigurationAndTheJournal lets the demo model change and read a configuration under another
// name than agent.toml, and a journal outside of .everturn.
func TestToolsDoNotReachTheConfigurationAndTheJournal(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[local_files]\nwrite = true\n[journal]\npath = \"data/j.db\"\n")
	require.NoError(t, os.Mkdir(h.path("data"), 0o700))
	require.NoError(t, os.Rename(h.path("agent.toml"), h.path("everturn.toml")))
	before, err := os.ReadFile(h.path("everturn.toml"))
	require.NoError(t, err)
	h.worker("--config", "everturn.toml")
	for i, call := range []string{
		`call local/write_file {"path":"everturn.toml","content":"gone","overwrite":true}`,
		`call local/read_file {"path":"everturn.toml"}`,
		`call local/write_file {"path":"data/j.db","content":"x","overwrite":true}`,
		`call local/write_file {"path":"data/j.db-journal","content":"x"}`,
	} {
		output := h.everturn("run", "--config", "everturn.toml", "-s", fmt.Sprint("s", i), call).exits(0)
		assert.Contains(t, output.out.String(), "out of the file tools' reach", call)
	}
	after, err := os.ReadFile(h.path("everturn.toml"))
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	assert.NoFileExists(t, h.path("data/j.db-journal"))
}
