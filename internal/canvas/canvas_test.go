package canvas

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository makes a repository of a user with one commit, changes in the index and the work tree, and hooks that would
// tell if they ran.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, "init", "-q", "-b", "main")
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-q", "--allow-empty", "-m", "begin")
	run(t, dir, "config", "hook.x.event", "reference-transaction") // of git 2.54 and newer
	run(t, dir, "config", "hook.x.command", "touch "+dir+"/HOOKED")
	for _, hook := range []string{"pre-commit", "post-commit", "reference-transaction", "post-merge", "post-checkout"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/hooks", hook), []byte("#!/bin/sh\ntouch "+dir+"/HOOKED\n"),
			0o755))
	}
	return dir
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.org"},
		args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func opened(t *testing.T, dir string) *Repo {
	t.Helper()
	r, err := Open(t.Context(), dir)
	require.NoError(t, err)
	return r
}

func call(session string, n int) Action {
	return Action{Session: session, Turn: "turn", Step: n, Call: fmt.Sprintf("%d.0", n), Tool: "local/canvas_write",
		ArgumentsHash: "abc"}
}

func text(s string) Change {
	return func([]byte, bool) ([]byte, bool, error) { return []byte(s), false, nil }
}

func write(t *testing.T, r *Repo, a Action, name, s string) string {
	t.Helper()
	id, err := r.Commit(t.Context(), a, "write "+name, name, text(s))
	require.NoError(t, err)
	return id
}

// users returns everything of a user in a repository: HEAD, index, work tree, hooks, configuration and branches.
func users(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, p)
		if strings.HasPrefix(rel, ".git/objects") || strings.Contains(rel, "everturn") {
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

func TestACanvasLeavesTheUsersRepositoryAlone(t *testing.T) {
	dir := repository(t, map[string]string{"a.txt": "one\n", "run.sh": "#!/bin/sh\n", "sub/b.txt": "b\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	run(t, dir, "commit", "-qam", "mode")
	require.NoError(t, os.Remove(filepath.Join(dir, "HOOKED")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("staged\n"), 0o644))
	run(t, dir, "add", "a.txt")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("not staged\n"), 0o644))
	before := users(t, dir)
	r := opened(t, dir)
	_, err := r.Show(t.Context(), "", "s 1")
	require.ErrorIs(t, err, ErrNoCanvas)

	write(t, r, call("s 1", 1), "new/päth \"q\".txt", "new\n")
	write(t, r, call("s 1", 2), "run.sh", "#!/bin/sh\necho\n")
	_, err = r.Commit(t.Context(), call("s 1", 3), "delete", "sub/b.txt",
		func([]byte, bool) ([]byte, bool, error) { return nil, true, nil })
	require.NoError(t, err)
	b, err := r.Read(t.Context(), "", "s 1", "a.txt")
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(b), "as committed")
	_, err = r.Read(t.Context(), "", "s 1", "sub/b.txt")
	require.ErrorIs(t, err, ErrNoFile)
	shown, err := r.Show(t.Context(), "", "s 1")
	require.NoError(t, err)
	assert.Equal(t, "everturn/s%201", shown.Branch)
	require.Len(t, shown.Commits, 3)
	assert.Equal(t, "turn/3.0", shown.Commits[0].Call)
	assert.Equal(t, []File{{Path: "new/päth \"q\".txt", Added: 1}, {Path: "run.sh", Added: 1},
		{Path: "sub/b.txt", Removed: 1}},
		shown.Files)
	assert.Contains(t, run(t, dir, "ls-tree", shown.Head, "run.sh"), "100755", "the mode is kept")
	diff, err := r.Diff(t.Context(), "", "s 1", "run.sh")
	require.NoError(t, err)
	assert.Contains(t, diff, "+echo")
	assert.Equal(t, before, users(t, dir))
	assert.NoFileExists(t, filepath.Join(dir, "HOOKED"))
	run(t, dir, "fsck", "--strict")
	_, err = r.Drop(t.Context(), "", "s 1")
	require.NoError(t, err)
	assert.Equal(t, before, users(t, dir))
}

// TestACallCommitsOnce repeats calls, as after a crash, and lets two processes commit for several sessions at once.
func TestACallCommitsOnce(t *testing.T) {
	dir := repository(t, nil)
	processes := []*Repo{opened(t, dir), opened(t, dir)}
	const sessions, calls = 3, 8
	var all sync.WaitGroup
	for session := range sessions {
		for n := range calls {
			for _, r := range processes { // both run the same call
				all.Go(func() {
					_, err := r.Commit(context.WithoutCancel(t.Context()), call(fmt.Sprint(session), n), "write",
						fmt.Sprintf("f%d", n), text("x"))
					assert.NoError(t, err)
				})
			}
		}
	}
	all.Wait()
	for session := range sessions {
		shown, err := processes[0].Show(t.Context(), "", fmt.Sprint(session))
		require.NoError(t, err)
		assert.Len(t, shown.Commits, calls)
		assert.Len(t, shown.Files, calls)
	}
	first := write(t, processes[0], call("0", 1), "f1", "other")
	assert.Equal(t, first, write(t, processes[1], call("0", 1), "f1", "another"))
}

// TestAKilledGitIsOvercome leaves behind what a git does that was killed while it moved the branch.
func TestAKilledGitIsOvercome(t *testing.T) {
	dir := repository(t, nil)
	r := opened(t, dir)
	write(t, r, call("s", 1), "a", "1")
	lock := filepath.Join(dir, ".git/refs/heads/everturn/s.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(lock, old, old))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/objects/pack/tmp_pack_x"), []byte("half"), 0o600))
	write(t, r, call("s", 2), "b", "2")
	shown, err := r.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Len(t, shown.Commits, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	_, err = r.Commit(ctx, call("s", 3), "write", "c", text("3"))
	require.ErrorIs(t, err, context.DeadlineExceeded, "the lock of a git that runs is respected")
}

func TestMerge(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n", "b": "1\n"})
	r := opened(t, dir)
	run(t, dir, "branch", "other")
	in := MergeInput{Action: call("s", 9), Into: "other", Title: "merge it"}
	_, err := r.Merge(t.Context(), in)
	require.ErrorIs(t, err, ErrNoCanvas)
	write(t, r, call("s", 1), "a", "2\n")
	before := users(t, dir)
	for _, into := range []string{"main", "none", "everturn/x", "../main", "-x", ""} {
		in.Into = into
		_, err := r.Merge(t.Context(), in)
		require.Error(t, err, into)
		assert.Equal(t, into == "main", errors.As(err, new(*CheckedOutError)), into)
	}
	assert.Equal(t, before, users(t, dir))
	in.Into = "other"
	id, err := r.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, run(t, dir, "rev-parse", "other"))
	assert.Equal(t, "2", run(t, dir, "show", "other:a"))
	again, err := r.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, again, "a call merges once")

	write(t, r, call("s", 10), "b", "2\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("3\n"), 0o644))
	run(t, dir, "commit", "-qam", "conflict")
	in = MergeInput{Action: call("s", 11), Into: "main", Title: "merge it", InWorkTree: true, Squash: true}
	_, err = r.Merge(t.Context(), in)
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, []string{"b"}, conflict.Paths)
	write(t, r, call("t", 1), "new/c", "3\n")
	in.Session = "t"
	id, err = r.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, run(t, dir, "rev-parse", "main"))
	assert.FileExists(t, filepath.Join(dir, "new/c"))
	assert.Empty(t, run(t, dir, "status", "--porcelain", "--untracked-files=no"))
	_, err = r.Merge(t.Context(), MergeInput{Action: call("t", 12), Into: "main"})
	require.ErrorContains(t, err, "nothing to merge")
}

func TestNothingIsCommittedOutOfReach(t *testing.T) {
	dir := repository(t, map[string]string{"file": "x", "sub/f": "y"})
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	run(t, dir, "add", "link")
	run(t, dir, "commit", "-qm", "link")
	r := opened(t, dir)
	for _, name := range []string{"", ".", "/abs", "../out", "a/../../out", ".git/config", ".GIT/hooks/x", "sub/.git/x",
		".git",
		".git./x", "git~1/config", ".everturn/journal.db", "a\nb", "a\x00b", "a\u200db", `a\b`, "file/x", "sub", "link", "link/x",
		strings.Repeat("x/", 600)} {
		_, err := r.Commit(t.Context(), call("s", 1), "write", name, text("gone"))
		require.Error(t, err, "%q", name)
	}
	_, err := r.Show(t.Context(), "", "s")
	require.ErrorIs(t, err, ErrNoCanvas)
	_, err = r.Commit(t.Context(), call("s", 1), "write", "big", text(strings.Repeat("x", MaxFile+1)))
	require.ErrorIs(t, err, ErrTooLarge)
	names := map[string]bool{}
	for _, s := range [][2]string{{"", "a"}, {"", "A"}, {"", "a/b"}, {"", "a%2Fb"}, {"", "a.lock"}, {"", ".."},
		{"", "@{x"},
		{"t", "a"}, {"", "tenant:t/a"}, {"", "tenant:t:a"}} {
		names[r.Branch(s[0], s[1])] = true
		run(t, dir, "check-ref-format", "--branch", r.Branch(s[0], s[1]))
	}
	assert.Len(t, names, 9,
		"only a tenant's session and one that is named like it share a branch, and there is no such name")
}

func TestAnEmptyRepository(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	r := opened(t, dir)
	write(t, r, call("s", 1), "a", "1\n")
	write(t, r, call("s", 2), "b", "1\n")
	shown, err := r.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Len(t, shown.Commits, 2)
	assert.Len(t, shown.Files, 2)
	_, err = Open(t.Context(), filepath.Join(dir, ".git/objects"))
	assert.Error(t, err)
}

func TestAMissingRepositoryIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	_, err := Open(t.Context(), dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "canvas.repo")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err = Open(t.Context(), dir)
	assert.ErrorContains(t, err, "canvas.repo")
}

// TestABranchOfAnotherAuthorIsNoOption has a commit whose base is an option that makes git diff write a file.
func TestABranchOfAnotherAuthorIsNoOption(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	output := filepath.Join(t.TempDir(), "output")
	run(t, dir, "checkout", "-q", "-b", "everturn/s")
	run(t, dir, "commit", "-q", "--allow-empty", "-m", "change\n\n"+trailerBase+": --output="+output)
	run(t, dir, "checkout", "-q", "main")
	r := opened(t, dir)
	_, err := r.Diff(t.Context(), "", "s", "")
	require.NoError(t, err)
	_, err = r.Show(t.Context(), "", "s")
	require.NoError(t, err)
	write(t, r, call("s", 1), "b", "2\n")
	assert.NoFileExists(t, output)
	assert.NoFileExists(t, output+".."+run(t, dir, "rev-parse", "everturn/s"))
}

// TestABranchInUseIsNotChanged has a canvas that is checked out, and one that is another name of the user's branch.
func TestABranchInUseIsNotChanged(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	run(t, dir, "symbolic-ref", "refs/heads/everturn/link", "refs/heads/main")
	r := opened(t, dir)
	write(t, r, call("s", 1), "b", "2\n")
	run(t, dir, "checkout", "-q", "everturn/s")
	before := users(t, dir)
	for _, session := range []string{"s", "link"} {
		_, err := r.Commit(t.Context(), call(session, 2), "write c", "c", text("3\n"))
		assert.ErrorContains(t, err, "is checked out or leads to another branch", session)
	}
	assert.Equal(t, before, users(t, dir))
}

// TestTheRepositoryOfAnotherFolderIsRefused has folders with a .git that leads to another repository of the user, and
// those of work trees and submodules, which are the user's own.
func TestTheRepositoryOfAnotherFolderIsRefused(t *testing.T) {
	at := t.TempDir()
	private := repository(t, map[string]string{"plan": "secret\n"})
	for name, lead := range map[string]func(folder string){
		"file": func(folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, ".git"), []byte("gitdir: "+private+"/.git\n"), 0o600))
		},
		"common directory": func(folder string) {
			require.NoError(t, os.Mkdir(filepath.Join(folder, ".git"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, ".git/commondir"), []byte(private+"/.git\n"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, ".git/HEAD"), []byte("ref: refs/heads/main\n"), 0o600))
		},
		"objects": func(folder string) {
			run(t, folder, "init", "-q")
			require.NoError(t, os.RemoveAll(filepath.Join(folder, ".git/objects")))
			require.NoError(t, os.Symlink(filepath.Join(private, ".git/objects"), filepath.Join(folder, ".git/objects")))
		},
		"link": func(folder string) {
			require.NoError(t, os.Symlink(filepath.Join(private, ".git"), filepath.Join(folder, ".git")))
		},
	} {
		folder := filepath.Join(at, name)
		require.NoError(t, os.Mkdir(folder, 0o700))
		lead(folder)
		_, err := Open(t.Context(), folder)
		assert.ErrorContains(t, err, "is not a work tree of", name)
	}
	tree := filepath.Join(at, "tree")
	run(t, private, "worktree", "add", "-q", tree)
	opened(t, tree)
	outer := repository(t, nil)
	run(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", private, "sub")
	opened(t, filepath.Join(outer, "sub"))
}

// TestADiffHidesNoChange checks that neither a NUL nor an attribute of the work tree makes git call a script binary.
func TestADiffHidesNoChange(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("*.sh -diff\n"), 0o600))
	r := opened(t, dir)
	write(t, r, call("s", 1), "run.sh", "rm -rf build\n")
	write(t, r, call("s", 2), "nul", "rm -rf dist\n#\x00\n")
	diff, err := r.Diff(t.Context(), "", "s", "")
	require.NoError(t, err)
	assert.Contains(t, diff, "+rm -rf build")
	assert.Contains(t, diff, "+rm -rf dist")
}

// BenchmarkCommit measures a change of a file in a repository of 20,000 files.
func BenchmarkCommit(b *testing.B) {
	dir := b.TempDir()
	var in strings.Builder
	in.WriteString("commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 1\nx\n")
	for i := range 20_000 {
		fmt.Fprintf(&in, "M 100644 inline d%d/e%d/f%d\ndata 2\nx\n\n", i%40, i%20, i)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"fast-import", "--quiet"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(in.String())
		require.NoError(b, cmd.Run())
	}
	r, err := Open(b.Context(), dir)
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		n++
		_, err := r.Commit(b.Context(), call("s", n), "write", "d1/e1/f1", text(fmt.Sprint(n)))
		require.NoError(b, err)
	}
}
