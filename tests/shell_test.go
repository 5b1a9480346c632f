package tests

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newShellUserFolder returns a folder with a trusted repository in which isolated commands need no approval. It skips
// the test if this machine cannot isolate commands.
func newShellUserFolder(t *testing.T) *userFolder {
	t.Helper()
	h := newCanvasUserFolder(t)
	settings := strings.Replace(h.read("agent.toml"), "workspace = \"repo\"\n",
		"workspace = \"repo\"\npreset = \"coding\"\ntrust_workspace = true\n", 1) + "\n[shell]\nenabled = true\n"
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "agent.toml"), []byte(settings), 0o600))
	if doctor := h.everturn("doctor", "-o", "json").out.String(); strings.Contains(doctor, "not offered") {
		require.Empty(t, os.Getenv("EVERTURN_BWRAP_REQUIRED"), doctor)
		t.Skip("no command can be isolated on this machine: " + doctor)
	}
	return h
}

// TestACommandActsInTheTreeOfItsSession lets the demo model run commands in a trusted repository, with the preset
// coding: git works, changes become commits of the session, also those of a command that fails, and the user's files
// stay.
func TestACommandActsInTheTreeOfItsSession(t *testing.T) {
	t.Parallel()
	h := newShellUserFolder(t)
	h.write("repo/.npmrc", "save=false\n")
	h.git("add", ".npmrc")
	h.git("commit", "-qm", "settings")
	h.worker()
	first := h.everturn("run", "-s", "tree",
		`call local/shell {"command":"git status && echo more >> page.md && git diff --stat && `+
			`for i in 1 2; do echo $i > new$i; done"}`).exits(0)
	assert.Contains(t, first.out.String(), "[exit code 0] (commit ")
	assert.Contains(t, first.out.String(), "page.md | 1 +")
	failing := h.everturn("run", "-s", "tree",
		`call local/shell {"command":"echo third > third; ln new1 hard; exit 3"}`).exits(0)
	assert.Contains(t, failing.out.String(), "[exit code 3] (commit ")
	assert.Contains(t, failing.out.String(), "[not committed: hard (")
	diff := h.everturn("canvas", "diff", "tree").exits(0).out.String()
	for _, part := range []string{"+more", "new1", "new2", "+third"} {
		assert.Contains(t, diff, part)
	}
	committed := h.everturn("run", "-s", "tree", `call local/shell {"command":"git add -A && git commit -qm mine && `+
		`git log --format=%s && cat .npmrc"}`).exits(0)
	assert.Contains(t, committed.out.String(), "mine")
	assert.Contains(t, committed.out.String(), "save=false")
	assert.Equal(t, "first\n", h.read("repo/page.md"))
	assert.Empty(t, h.git("status", "--porcelain"))
	assert.Equal(t, "settings\nbegin", h.git("log", "--format=%s", "main"))
}

// TestAKeptJobOutlivesItsTurn writes to a job in a later turn. What it then changes is a commit of its own.
func TestAKeptJobOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	h := newShellUserFolder(t)
	worker := h.worker()
	h.everturn("run", "-s", "kept-job", `call local/job_start {"command":"echo begun; read -r x; echo $x > from-job; `+
		`read -r y; echo $y > later; sleep 600","keep":true}`).exits(0)
	h.everturn("run", "-s", "kept-job", `call local/job_write {"id":"job-1","command":"hello\n"}`).exits(0)
	h.everturn("run", "-s", "kept-job",
		`call local/shell {"command":"until test -s from-job; do sleep 0.05; done; cat from-job > copy"}`).exits(0)
	h.everturn("run", "-s", "kept-job", `call local/job_write {"id":"job-1","command":"again\n"}`).exits(0)
	h.everturn("run", "-s", "kept-job", `call local/shell {"command":"until test -s later; do sleep 0.05; done"}`).exits(0)
	listed := h.everturn("run", "-s", "kept-job", `call local/job_read {}`).exits(0)
	assert.Contains(t, listed.out.String(), "[job-1: running, kept]")
	require.Eventually(t, func() bool { // what the worker keeps of the output follows within seconds
		files, err := filepath.Glob(h.path(".everturn/jobs/*-job-1"))
		require.NoError(t, err)
		if len(files) != 1 {
			return false
		}
		b, err := os.ReadFile(files[0])
		return err == nil && strings.Contains(string(b), "begun\\n")
	}, within, 10*time.Millisecond)
	worker.signal(syscall.SIGKILL)
	worker.wait()
	h.worker()
	lost := h.everturn("run", "-s", "kept-job", `call local/job_read {"id":"job-1"}`).exits(0)
	assert.Contains(t, lost.out.String(), "its worker")
	assert.Contains(t, lost.out.String(), "begun")
	diff := h.everturn("canvas", "diff", "kept-job").exits(0).out.String()
	for _, part := range []string{"+hello", "+again", "copy"} {
		assert.Contains(t, diff, part)
	}
}
