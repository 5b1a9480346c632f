package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository makes a repository of a user with one commit, changes in the index and the work tree, and hooks that would
// tell if they ran.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	userGit(t, dir, "init", "-q", "-b", "main")
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "begin")
	userGit(t, dir, "config", "hook.x.event", "reference-transaction") // of git 2.54 and newer
	userGit(t, dir, "config", "hook.x.command", "touch "+dir+"/HOOKED")
	for _, hook := range []string{"pre-commit", "post-commit", "reference-transaction", "post-merge", "post-checkout"} {
		syscall.ForkLock.RLock() // a process that begins meanwhile would hold the file open for writing
		err := os.WriteFile(filepath.Join(dir, ".git/hooks", hook), []byte("#!/bin/sh\ntouch "+dir+"/HOOKED\n"), 0o755)
		syscall.ForkLock.RUnlock()
		require.NoError(t, err)
	}
	return dir
}

func userGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.org"},
		args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func opened(t *testing.T, dir string) *Store {
	t.Helper()
	return openedIn(t, dir, filepath.Join(t.TempDir(), ".everturn"))
}

func openedIn(t *testing.T, dir, state string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Repo: dir, State: state})
	require.NoError(t, err)
	return s
}

func call(session string, n int) Action {
	return Action{Session: session, Turn: "turn", Step: n, Call: fmt.Sprintf("%d.0", n), Tool: "local/write_file",
		ArgumentsHash: "abc"}
}

// inStore runs git in the store, as only the host does.
func inStore(t *testing.T, s *Store, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"--git-dir=" + s.store()}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// write changes a file of the session's tree as a file tool does, and returns the commit.
func write(t *testing.T, s *Store, a Action, name, text string) string {
	t.Helper()
	res, err := s.Change(t.Context(), a, nil, Change{Title: "write " + name, Run: func(dir string) ([]string, error) {
		return []string{name}, put(dir, name, text)
	}})
	require.NoError(t, err)
	require.Empty(t, res.Skipped)
	return res.Commit
}

func put(dir, name, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// command changes the session's tree by a command of the shell.
func command(t *testing.T, s *Store, a Action, script string) Result {
	t.Helper()
	res, err := s.Change(t.Context(), a, nil, Change{Title: "run", Run: func(dir string) ([]string, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s", out)
		return nil, err
	}})
	require.NoError(t, err)
	return res
}

// files returns the content of a tree without .git, by path.
func files(t *testing.T, s *Store, session string) map[string]string {
	t.Helper()
	dir, found := s.Path("", session), map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			b, rerr := os.ReadFile(p)
			rel, _ := filepath.Rel(dir, p)
			found[rel], err = string(b), rerr
		}
		return err
	}))
	return found
}

// users returns everything of a user in a repository: HEAD, index, work tree, hooks, configuration and branches, except
// for paths that end with one of these.
func users(t *testing.T, dir string, except ...string) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, p)
		if strings.HasPrefix(rel, ".git/objects") || strings.Contains(rel, "everturn") ||
			slices.ContainsFunc(except, func(end string) bool { return strings.HasSuffix(rel, end) }) {
			return nil
		}
		fmt.Fprintln(sum, rel, d.Type())
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			require.NoError(t, err)
			sum.Write(b)
		}
		return nil
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// from is the origin of a subagent's canvas.
func from(caller string) Begins {
	return func(context.Context) (Origin, error) { return Origin{Caller: caller}, nil }
}
