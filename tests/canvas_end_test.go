package tests

import (
	"encoding/json"
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
	"github.com/everturn/everturn/workflows/turn"
)

// newPublishingUserFolder is newCanvasUserFolder with a bare repository to publish to, and a policy that asks for
// nothing that does not always ask.
func newPublishingUserFolder(t *testing.T) (h *userFolder, remote string) {
	t.Helper()
	h = newCanvasUserFolder(t)
	remote = filepath.Join(h.dir, "remote.git")
	h.git("clone", "-q", "--bare", filepath.Join(h.dir, "repo"), remote)
	h.write("agent.toml", strings.Replace(h.read("agent.toml"), `ask = ["local/edit_file"]`, `ask_risk = "never"`, 1)+
		fmt.Sprintf("[workspace.publish]\nremote = %q\nbranch = \"agent/{session}\"\n"+
			"pull_request = [\"sh\", \"-c\", \"echo opened $1 >> pulls; echo opened $1\", \"pr\", \"{branch}\"]\n", remote))
	return h, remote
}

// inRemote runs git in the repository to which sessions are published.
func (h *userFolder) inRemote(remote string, args ...string) string {
	return h.git(append([]string{"--git-dir=" + remote}, args...)...)
}

// workspaceEvents returns the events of a session's last turn that are about its tree, by kind.
func (h *userFolder) workspaceEvents(session string) map[turn.EventKind]turn.WorkspaceEvent {
	h.t.Helper()
	found := map[turn.EventKind]turn.WorkspaceEvent{}
	for _, e := range decodedLines[turn.Event](h.everturn("attach", "-o", "jsonl", session).exits(0)) {
		if strings.HasPrefix(string(e.Kind), "workspace_") {
			var data turn.WorkspaceEvent
			require.NoError(h.t, json.Unmarshal(e.Data, &data))
			require.NotContains(h.t, found, e.Kind)
			found[e.Kind] = data
		}
	}
	return found
}

// publishCall is a message with which the demo model publishes its session, as canvas show describes it.
func (h *userFolder) publishCall(session string) string {
	shown := decoded[workspace.Summary](h.everturn("canvas", "show", "-o", "json", session).exits(0))
	return fmt.Sprintf(`call local/canvas_publish {"commit":%q,"files":["new.md"],"title":"Add a page"}`, shown.Head)
}

const writeNew = `call local/write_file {"path":"new.md","content":"new\n"}`

// TestASessionIsPublished lets the model publish what it has changed, which needs an approval whatever the policy says,
// and then the user, who finds it published.
func TestASessionIsPublished(t *testing.T) {
	t.Parallel()
	h, remote := newPublishingUserFolder(t)
	h.worker()
	h.everturn("run", "-s", "published", writeNew).exits(0)
	events := h.workspaceEvents("published")
	assert.Equal(t, []string{"new.md"}, events[turn.EventWorkspaceCommitted].Files)
	assert.Equal(t, "everturn/published", events[turn.EventWorkspaceCreated].Branch)
	asked := h.everturn("run", "-s", "published", h.publishCall("published")).exits(6)
	assert.Contains(t, asked.err.String(), "new.md")
	h.everturn("approve", "published", "1.0", "--always", "tool", "-y").exits(3)
	h.everturn("approve", "published", "1.0", "-y").exits(0)
	assert.Contains(t, h.everturn("attach", "published").exits(0).out.String(), "opened agent/published")
	head := h.inRemote(remote, "rev-parse", "agent/published")
	event := h.workspaceEvents("published")[turn.EventWorkspacePublished]
	assert.Equal(t, []string{head, "agent/published", "1.0"}, []string{event.Commit, event.Branch, event.CallID})
	assert.Equal(t, "begin", h.git("log", "--format=%s", "main"))
	h.everturn("canvas", "publish", "published", "--commit", strings.Repeat("0", 40)).exits(1)
	again := h.everturn("canvas", "publish", "published").exits(0)
	assert.Contains(t, again.out.String(), "had pushed")
	h.everturn("canvas", "publish", "published", "--squash", "-m", "One page").exits(0)
	assert.Equal(t, "One page", h.inRemote(remote, "log", "--format=%s", "main..agent/published"))

	refused := h.everturn("canvas", "drop", "published").exits(3)
	assert.Contains(t, refused.err.String(), "new.md")
	listed := decoded[[]workspace.Canvas](h.everturn("canvas", "list", "-o", "json").exits(0))
	require.Len(t, listed, 1)
	assert.Equal(t, 1, listed[0].Unmerged)
	assert.Zero(t, listed[0].GoesAt)
	h.everturn("canvas", "drop", "published", "--yes").exits(0)
	assert.Empty(t, decoded[[]workspace.Canvas](h.everturn("canvas", "list", "-o", "json").exits(0)))
}

// TestAKilledWorkerPublishesOnce kills a worker when git has pushed and the call is not settled.
func TestAKilledWorkerPublishesOnce(t *testing.T) {
	t.Parallel()
	h, remote := newPublishingUserFolder(t)
	real, err := exec.LookPath("git")
	require.NoError(t, err)
	bin, hold, done := t.TempDir(), filepath.Join(h.dir, "hold"), filepath.Join(h.dir, "done")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"),
		fmt.Appendf(nil, "#!/bin/sh\n%q \"$@\"\ncode=$?\ncase \" $* \" in "+
			"*' push '*) touch %q; while [ -e %q ]; do sleep 0.05; done;; esac\nexit $code\n", real, done, hold), 0o755))
	h.write("hold", "")
	path := h.environ[0]
	h.environ[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
	first := h.worker()
	h.environ[0] = path
	h.everturn("run", "-s", "pushing", writeNew).exits(0)
	h.everturn("run", "-s", "pushing", h.publishCall("pushing")).exits(6)
	h.everturn("approve", "pushing", "1.0", "-y").exits(0)
	require.Eventually(t, func() bool { _, err := os.Stat(done); return err == nil }, within, 10*time.Millisecond)
	first.signal(syscall.SIGKILL)
	first.wait()
	require.NoError(t, os.Remove(hold))
	pushed := h.inRemote(remote, "rev-parse", "agent/pushing")
	h.worker()
	assert.Contains(t, strings.ToLower(h.everturn("attach", "pushing").exits(0).out.String()), "unknown")
	assert.NoFileExists(t, filepath.Join(h.dir, "repo/pulls"))
	assert.Equal(t, pushed, h.inRemote(remote, "rev-parse", "agent/pushing"))
	assert.Contains(t, h.everturn("canvas", "publish", "pushing").exits(0).out.String(), "had pushed")
	assert.FileExists(t, filepath.Join(h.dir, "repo/pulls"))
}

// TestANewTreeIsSetUp kills a worker in the middle of a setup, which then runs again, and breaks the setup of later
// trees, which their model is told.
func TestANewTreeIsSetUp(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.write("agent.toml", strings.Replace(h.read("agent.toml"), "mode = \"tree\"\n",
		"mode = \"tree\"\nsetup = \"sh setup.sh\"\n", 1)+
		"[shell]\nenabled = true\n")
	h.write("repo/setup.sh", "echo preparing; date +%s%N > begun; while [ -e hold ]; do sleep 0.05; done; echo y > lock\n")
	h.write("repo/hold", "")
	h.git("add", ".")
	h.git("commit", "-qm", "setup")
	if doctor := h.everturn("doctor", "-o", "json").out.String(); strings.Contains(doctor, "not offered") {
		require.Empty(t, os.Getenv("EVERTURN_BWRAP_REQUIRED"), doctor)
		t.Skip("no command can be isolated on this machine: " + doctor)
	}
	first := h.worker()
	h.everturn("run", "-s", "prepared", "--detach", writeNew).exits(0)
	var tree string
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(h.dir, ".everturn/workspace/*/trees/*/begun"))
		if err == nil && len(found) == 1 {
			tree = filepath.Dir(found[0])
		}
		return tree != ""
	}, within, 10*time.Millisecond)
	first.signal(syscall.SIGKILL)
	first.wait()
	begun := func() string { b, _ := os.ReadFile(filepath.Join(tree, "begun")); return string(b) }
	interrupted := begun()
	h.worker()
	require.Eventually(t, func() bool {
		if again := begun(); again != "" && again != interrupted { // the new setup begins with all files
			_ = os.Remove(filepath.Join(tree, "hold"))
		}
		_, err := os.Stat(filepath.Join(tree, "lock"))
		return err == nil
	}, within, 10*time.Millisecond)
	assert.Contains(t, h.everturn("attach", "prepared").exits(0).out.String(), "was prepared with")
	var subjects []string
	for _, c := range decoded[workspace.Summary](h.everturn("canvas", "show", "-o", "json", "prepared").exits(0)).Commits {
		subjects = append(subjects, c.Subject)
	}
	assert.Equal(t, []string{"write new.md", "setup"}, subjects)
	more := h.everturn("run", "-s", "prepared", `call local/write_file {"path":"more.md","content":"x"}`).exits(0)
	assert.NotContains(t, more.out.String(), "prepared")

	h.write("repo/setup.sh", "echo no such package; exit 3\n")
	h.git("commit", "-qam", "break")
	broken := h.everturn("run", "-s", "broken", writeNew).exits(0)
	for _, says := range []string{"wrote", "failed: exit code 3", "no such package"} {
		assert.Contains(t, broken.out.String(), says)
	}
	events := h.workspaceEvents("broken")
	assert.Equal(t, "exit code 3", events[turn.EventWorkspaceSetup].Problem)
	assert.Contains(t, events[turn.EventWorkspaceSetup].Output, "no such package")
	assert.NotEmpty(t, events[turn.EventWorkspaceCommitted].Commit)
	assert.Contains(t, h.everturn("canvas", "show", "broken").exits(0).err.String(), "exit code 3")
}

// TestTheModelIsToldOfUndo takes a change back between two messages.
func TestTheModelIsToldOfUndo(t *testing.T) {
	t.Parallel()
	h := newCanvasUserFolder(t)
	h.worker()
	h.everturn("run", "-s", "undone", writeNew).exits(0)
	h.everturn("canvas", "undo", "undone").exits(0)
	read := `call local/list_files {}`
	h.everturn("run", "-s", "undone", read).exits(0)
	event := h.workspaceEvents("undone")[turn.EventWorkspaceRewound]
	assert.Equal(t, []string{"new.md"}, event.Files)
	h.everturn("run", "-s", "undone", read).exits(0)
	assert.NotContains(t, h.workspaceEvents("undone"), turn.EventWorkspaceRewound)
	told := 0
	for _, m := range decoded[shown](h.everturn("show", "undone", "-o", "json").exits(0)).Messages {
		if strings.Contains(m.Text, "took back") && strings.Contains(m.Text, "write new.md (call 1.0): new.md") {
			told++
		}
	}
	assert.Equal(t, 1, told)
}
