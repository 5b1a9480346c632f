package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
)

// git runs git in the home's repository, as its user does.
func (h *userFolder) git(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(h.dir, "repo"), "-c", "user.name=Ann",
		"-c", "user.email=ann@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// newCanvasUserFolder returns a home with a repository, and the demo model.
func newCanvasUserFolder(t *testing.T) *userFolder {
	t.Helper()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n[runtime]\nworkspace = \"repo\"\n"+
		"[workspace]\nmode = \"tree\"\n[policy]\nask = [\"local/edit_file\"]\n")
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "repo"), 0o755))
	h.git("init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "repo/page.md"), []byte("first\n"), 0o644))
	h.git("add", ".")
	h.git("commit", "-qm", "begin")
	return h
}

// TestASessionChangesItsCanvas follows what a user does: the session changes files, the edit waits for an approval that
// shows it, the work tree stays as it is until the user merges.
func TestASessionChangesItsCanvas(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.worker()
	h.everturn("canvas", "show", "changing").exits(3)
	h.everturn("run", "-s", "changing", `call local/write_file {"path":"docs/new.md","content":"new\rshown\n"}`).exits(0)
	assert.Contains(t, h.everturn("canvas", "diff", "changing").exits(0).out.String(), `+new\x0dshown`)
	asked := h.everturn("run", "-s", "changing",
		`call local/edit_file {"path":"page.md","old_string":"first","new_string":"second"}`).exits(6)
	assert.Contains(t, asked.err.String(), "+second")
	h.everturn("approve", "changing", "1.0", "-y").exits(0)
	h.everturn("attach", "changing").exits(0)
	shown := decoded[workspace.Summary](h.everturn("canvas", "show", "-o", "json", "changing").exits(0))
	assert.Equal(t, "everturn/changing", shown.Branch)
	assert.Len(t, shown.Commits, 2)
	assert.Equal(t, []workspace.File{{Path: "docs/new.md", Added: 1}, {Path: "page.md", Added: 1, Removed: 1}},
		shown.Files)
	assert.Contains(t, h.everturn("canvas", "diff", "changing", "--file", "page.md").exits(0).out.String(), "+second")
	assert.Contains(t, h.everturn("canvas", "log", "changing").exits(0).out.String(), "edit page.md")
	assert.Contains(t,
		h.everturn("run", "-s", "changing", `call local/read_file {"path":"page.md"}`).exits(0).out.String(), "second")
	assert.Contains(t, h.everturn("run", "-s", "changing", `call local/read_file {"path":".env"}`).exits(0).out.String(),
		"credentials")
	assert.Equal(t, "first\n", h.read("repo/page.md"))
	merging := h.everturn("run", "-s", "changing",
		`call local/canvas_merge {"into":"main","title":"x","commit":"`+shown.Head+
			`","files":["docs/new.md","page.md"]}`).exits(6)
	assert.Contains(t, merging.err.String(), "docs/new.md")
	assert.Contains(t, merging.err.String(), "risk high")
	h.everturn("approve", "changing", "1.0", "-y").exits(0)
	assert.Contains(t, h.everturn("attach", "changing").exits(0).out.String(), "checked out")
	assert.Empty(t, h.git("status", "--porcelain"))

	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "repo/page.md"), []byte("mine\n"), 0o644))
	h.everturn("canvas", "merge", "changing").exits(1)
	h.git("checkout", "-q", "page.md")
	h.everturn("canvas", "merge", "changing", "--squash", "-m", "Write the page").exits(0)
	assert.Equal(t, "Write the page", h.git("log", "-1", "--format=%s"))
	assert.Equal(t, "begin", h.git("log", "-1", "--format=%s", "HEAD~1"))
	assert.Empty(t, h.git("status", "--porcelain"))
	h.everturn("--tenant", "beta", "canvas", "drop", "changing").exits(3)
	h.everturn("canvas", "drop", "changing").exits(0)
	h.everturn("canvas", "diff", "changing").exits(3)
}

// TestARequestShowsTheLinesAroundAChange: the approval of an edit is a diff of the file in the session's tree.
func TestARequestShowsTheLinesAroundAChange(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.worker()
	wrote := h.everturn("run", "-s", "around",
		`call local/write_file {"path":"story.txt","content":"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"}`).exits(0)
	assert.Contains(t, wrote.err.String(), "story.txt +7 · `")
	assert.Contains(t, wrote.err.String(), "canvas diff around`")
	asked := h.everturn("run", "-s", "around",
		`call local/edit_file {"path":"story.txt","old_string":"five","new_string":"5"}`).exits(6)
	listed := h.everturn("approvals", "around").exits(0)
	attached := h.everturn("attach", "--no-wait", "around").exits(6)
	for _, shown := range []string{asked.err.String(), listed.out.String(), attached.err.String()} {
		assert.Contains(t, shown, "@@ -2,6 +2,6 @@")
		assert.Contains(t, shown, "│  four\n  │ -five\n  │ +5\n  │  six\n")
	}
	h.everturn("deny", "around", "1.0").exits(0)
	denied := h.everturn("attach", "around").exits(0)
	assert.NotContains(t, denied.err.String(), "canvas diff", "the turn has changed nothing")
}

// TestForksAndUndoHaveTheFilesOfTheirMessages forks a session before its second change, and takes that change back.
func TestForksAndUndoHaveTheFilesOfTheirMessages(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.worker()
	h.everturn("canvas", "undo", "both").exits(3)
	h.write("repo/own.md", "mine\n")
	own := `call local/read_file {"path":"own.md"}`
	assert.Contains(t, h.everturn("run", "-s", "without", own).exits(0).err.String(), "own.md")
	with := h.everturn("run", "-s", "with", "--with-changes", own).exits(0)
	assert.Contains(t, with.out.String(), "mine")
	h.everturn("run", "-s", "with", "--with-changes", own).exits(3)
	h.everturn("run", "-s", "both",
		`call local/write_file {"path":"page.md","content":"second\n","overwrite":true}`).exits(0)
	at := len(decoded[shown](h.everturn("show", "both", "-o", "json").exits(0)).Messages)
	h.everturn("run", "-s", "both",
		`call local/write_file {"path":"page.md","content":"third\n","overwrite":true}`).exits(0)
	h.everturn("rewind", "both", "--to", fmt.Sprint(at), "--as", "back").exits(0)
	h.everturn("fork", "both", "--at", "1", "--as", "begin").exits(0)
	h.everturn("fork", "both", "--as", "end").exits(0)
	read := func(session string) string {
		return h.everturn("run", "-s", session, `call local/read_file {"path":"page.md"}`).exits(0).out.String()
	}
	for session, want := range map[string]string{"back": "second", "begin": "first", "end": "third", "both": "third"} {
		assert.Contains(t, read(session), want, session)
	}
	h.everturn("canvas", "undo", "both").exits(0)
	assert.Contains(t, read("both"), "second")
	h.everturn("canvas", "merge", "both", "--commit", strings.Repeat("0", 40)).exits(1)
	assert.Equal(t, "first\n", h.read("repo/page.md"))
}

// TestAKilledWorkerCommitsOnce kills a worker when git has made a commit and the call is not settled.
func TestAKilledWorkerCommitsOnce(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	real, err := exec.LookPath("git")
	require.NoError(t, err)
	bin, hold, done := t.TempDir(), filepath.Join(h.dir, "hold"), filepath.Join(h.dir, "done")
	require.NoError(t,
		os.WriteFile(filepath.Join(bin, "git"), []byte(fmt.Sprintf("#!/bin/sh\n%q \"$@\"\ncode=$?\ncase \"$*\" in "+
			"*fast-import*) touch %q; while [ -e %q ]; do sleep 0.05; done;; esac\nexit $code\n", real, done, hold)), 0o755))
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	h.environ[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
	first := h.worker()
	h.everturn("run", "-s", "killed", "--detach",
		`call local/write_file {"path":"docs/new.md","content":"new\n"}`).exits(0)
	require.Eventually(t, func() bool { _, err := os.Stat(done); return err == nil }, within, 10*time.Millisecond)
	first.signal(syscall.SIGKILL)
	first.wait()
	require.NoError(t, os.Remove(hold))
	h.worker()
	assert.Contains(t, h.everturn("attach", "killed").exits(0).out.String(), "commit ")
	assert.Len(t, decoded[workspace.Summary](h.everturn("canvas", "show", "-o", "json", "killed").exits(0)).Commits, 1)
}
