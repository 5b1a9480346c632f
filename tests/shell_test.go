package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestACommandActsInTheTreeOfItsSession lets the demo model run commands in a trusted repository, with the preset
// coding: git works, changes become commits of the session, also those of a command that fails, and the user's files
// stay.
func TestACommandActsInTheTreeOfItsSession(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	settings := strings.Replace(h.read("agent.toml"), "workspace = \"repo\"\n",
		"workspace = \"repo\"\npreset = \"coding\"\ntrust_workspace = true\n", 1) + "\n[shell]\nenabled = true\n"
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "agent.toml"), []byte(settings), 0o600))
	if doctor := h.everturn("doctor", "-o", "json").out.String(); strings.Contains(doctor, "not offered") {
		require.Empty(t, os.Getenv("EVERTURN_BWRAP_REQUIRED"), doctor)
		t.Skip("no command can be isolated on this machine: " + doctor)
	}
	h.write("repo/.npmrc", "save=false\n")
	h.git("add", ".npmrc")
	h.git("commit", "-qm", "settings")
	h.worker()
	first := h.everturn("run", "-s", "tree",
		`call local/shell {"command":"git status && echo more >> page.md && git diff --stat && for i in 1 2; do echo $i > new$i; done"}`).exits(0)
	assert.Contains(t, first.out.String(), "[exit code 0] (commit ")
	assert.Contains(t, first.out.String(), "page.md | 1 +")
	failing := h.everturn("run", "-s", "tree", `call local/shell {"command":"echo third > third; exit 3"}`).exits(0)
	assert.Contains(t, failing.out.String(), "[exit code 3]")
	diff := h.everturn("canvas", "diff", "tree").exits(0).out.String()
	for _, part := range []string{"+more", "new1", "new2", "+third"} {
		assert.Contains(t, diff, part)
	}
	committed := h.everturn("run", "-s", "tree", `call local/shell {"command":"git add -A && git commit -qm mine && git log --format=%s && cat .npmrc"}`).exits(0)
	assert.Contains(t, committed.out.String(), "mine")
	assert.Contains(t, committed.out.String(), "save=false")
	assert.Equal(t, "first\n", h.read("repo/page.md"))
	assert.Empty(t, h.git("status", "--porcelain"))
	assert.Equal(t, "settings\nbegin", h.git("log", "--format=%s", "main"))
}
