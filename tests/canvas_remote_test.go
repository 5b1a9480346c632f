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
	"github.com/everturn/everturn/journal/postgres/pgtest"
)

// newMachines returns the folders of two machines, which have clones of one repository and share a journal, a task queue
// and a remote, if there is one.
func newMachines(t *testing.T, remote bool) (a, b *userFolder, bare string) {
	t.Helper()
	a = newCanvasUserFolder(t)
	settings := fmt.Sprintf("[journal]\nurl = %q\n", pgtest.Start(t).Empty(t))
	workspaces := "takeover_after = \"15s\"\n"
	if remote {
		bare = filepath.Join(t.TempDir(), "remote.git")
		a.git("clone", "-q", "--bare", ".", bare)
		workspaces += fmt.Sprintf("remote = %q\n", bare)
	}
	file := strings.Replace(a.read("agent.toml"), "mode = \"tree\"\n", "mode = \"tree\"\n"+workspaces, 1) + settings
	a.write("agent.toml", file)
	b = newUserFolder(t, "")
	b.write("agent.toml", file)
	a.git("clone", "-q", ".", b.path("repo"))
	a.everturn("journal", "migrate").exits(0)
	return a, b, bare
}

// lastOf returns the last commit of a session in a remote.
func lastOf(t *testing.T, bare, session string) string {
	t.Helper()
	out, err := exec.Command("git", "--git-dir="+bare, "rev-parse", "--verify", "refs/everturn/sessions/"+session).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// holdsGit gives a machine a git that waits after a commit, or before a push, as long as the file hold exists, and
// touches done meanwhile.
func holdsGit(t *testing.T, h *userFolder, at string) (hold, done string) {
	t.Helper()
	real, err := exec.LookPath("git")
	require.NoError(t, err)
	bin := t.TempDir()
	hold, done = h.path("hold"), h.path("done")
	script := fmt.Sprintf(`#!/bin/sh
held() { while [ -e %[2]q ]; do touch %[3]q; sleep 0.05; done; }
case "%[4]s $*" in push*push*) held;; esac
%[1]q "$@"
code=$?
case "%[4]s $*" in fast-import*fast-import*) held;; esac
exit $code
`, real, hold, done, at)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755))
	h.environ[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
	return hold, done
}

// kept returns the references of what a machine has kept of changes that are no part of a session.
func (h *userFolder) kept() string {
	h.t.Helper()
	return h.inStore("for-each-ref", "--format=%(refname)", "refs/everturn/aside/")
}

// inStore runs git in the store of trees.
func (h *userFolder) inStore(args ...string) string {
	h.t.Helper()
	stores, err := filepath.Glob(h.path(".everturn/workspace/*/store"))
	require.NoError(h.t, err)
	require.Len(h.t, stores, 1)
	return h.git(append([]string{"--git-dir=" + stores[0]}, args...)...)
}

// TestAnotherMachineContinuesASession lets the worker with a session's tree be killed, or suspended, in the middle of a
// call. A worker of another machine takes the tree over from the remote. The first one keeps its commit when it is back,
// and neither the journal nor the remote takes it.
func TestAnotherMachineContinuesASession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session, at string
		end         syscall.Signal
	}{
		{"moved", "fast-import", syscall.SIGKILL},
		{"suspended", "fast-import", syscall.SIGSTOP},
		{"suspended-push", "push", syscall.SIGSTOP},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			continuesASession(t, c.session, c.at, c.end)
		})
	}
}

func continuesASession(t *testing.T, session, at string, end syscall.Signal) {
	a, b, bare := newMachines(t, true)
	hold, done := holdsGit(t, a, at)
	first := a.worker()
	a.everturn("run", "-s", session, `call local/write_file {"path":"one.md","content":"1\n"}`).exits(0)
	shown := decoded[workspace.Summary](a.everturn("canvas", "show", "-o", "json", session).exits(0))
	assert.Equal(t, shown.Head, lastOf(t, bare, session))
	b.worker()
	for range 3 { // whatever worker gets the call, the one with the tree runs it
		read := b.everturn("run", "-s", session, `call local/read_file {"path":"one.md"}`).exits(0)
		assert.Contains(t, read.out.String(), "1")
	}
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	b.everturn("run", "-s", session, "--detach", `call local/write_file {"path":"two.md","content":"2\n"}`).exits(0)
	require.Eventually(t, func() bool { _, err := os.Stat(done); return err == nil }, within, 10*time.Millisecond)
	first.signal(end)
	if end == syscall.SIGKILL {
		first.wait()
		require.NoError(t, os.Remove(hold))
	}
	attached := b.everturn("attach", session).exits(0).out.String()
	assert.Contains(t, attached, "commit ")
	assert.Contains(t, attached, "made anew", "the user is told what is lost")
	shown = decoded[workspace.Summary](b.everturn("canvas", "show", "-o", "json", session).exits(0))
	assert.Len(t, shown.Commits, 2)
	if end == syscall.SIGKILL {
		a.worker()
	} else {
		require.NoError(t, os.Remove(hold))
		first.signal(syscall.SIGCONT)
	}
	require.Eventually(t, func() bool { return a.kept() != "" }, within, 50*time.Millisecond, "its commit is kept")
	assert.Equal(t, shown.Head, lastOf(t, bare, session), "and no part of the session")
	for _, h := range []*userFolder{a, b} {
		now := decoded[workspace.Summary](h.everturn("canvas", "show", "-o", "json", session).exits(0))
		assert.Equal(t, shown.Commits, now.Commits)
	}
	a.everturn("canvas", "undo", session).exits(1)
	a.everturn("run", "-s", session, `call local/write_file {"path":"three.md","content":"3\n"}`).exits(0)
	shown = decoded[workspace.Summary](b.everturn("canvas", "show", "-o", "json", session).exits(0))
	assert.Len(t, shown.Commits, 3)
	assert.Equal(t, shown.Head, lastOf(t, bare, session))
}

// TestWithoutARemoteTheMachineIsNamed takes away the only worker that has a session's tree.
func TestWithoutARemoteTheMachineIsNamed(t *testing.T) {
	t.Parallel()
	a, b, _ := newMachines(t, false)
	first := a.worker()
	a.everturn("run", "-s", "unreachable", `call local/write_file {"path":"one.md","content":"1\n"}`).exits(0)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Contains(t, b.everturn("canvas", "diff", "unreachable").exits(1).err.String(), host)
	first.end()
	b.worker()
	read := b.begin(nil, "run", "-s", "unreachable", `call local/read_file {"path":"one.md"}`)
	a.worker()
	assert.Contains(t, read.wait().exits(0).out.String(), "1", "the call waits for the worker")
}
