package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestACommandRunsConfined lets the demo model run a command in the workspace. It needs an approval, and a kernel that
// can confine it.
func TestACommandRunsConfined(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[shell]\nenabled = true\n")
	w := h.worker()
	asked := h.begin(nil, "run", "-s", "commands",
		`call local/shell {"command":"ls; cat .everturn/* agent.toml > /dev/null"}`)
	select {
	case <-w.done:
		t.Skip("no command runs on this kernel: " + w.err.String())
	case <-asked.done:
	}
	assert.Contains(t, asked.exits(6).err.String(), "risk high")
	h.everturn("approve", "commands", "1.0", "-y").exits(0)
	output := h.everturn("attach", "commands").exits(0).out.String()
	assert.Contains(t, output, "agent.toml")
	assert.Contains(t, output, "Permission denied")
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
