package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestATreeLeavesTheUsersRepositoryAlone changes a tree by file tools and by a command while the user has changes of
// his own.
func TestATreeLeavesTheUsersRepositoryAlone(t *testing.T) {
	dir := repository(t, map[string]string{"a.txt": "one\n", "run.sh": "#!/bin/sh\n", "sub/b.txt": "b\n", ".gitignore": "*.o\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-qam", "mode")
	require.NoError(t, os.Remove(filepath.Join(dir, "HOOKED")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("staged\n"), 0o644))
	userGit(t, dir, "add", "a.txt")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("not staged\n"), 0o644))
	before := users(t, dir)
	s := opened(t, dir)
	_, err := s.Show(t.Context(), "", "s 1")
	require.ErrorIs(t, err, ErrNoCanvas)

	write(t, s, call("s 1", 1), "new/päth \"q\".txt", "new\n")
	assert.Equal(t, "one\n", files(t, s, "s 1")["a.txt"], "as committed")
	target, err := os.Readlink(filepath.Join(s.Path("", "s 1"), "link"))
	require.NoError(t, err)
	assert.Equal(t, "a.txt", target)
	command(t, s, call("s 1", 2), "echo echo >>run.sh; rm sub/b.txt; echo x >x.o; ln -s new l; mkdir -p d; "+
		"printf 'x' >'d/a\tb'; mkfifo fifo")
	res := command(t, s, call("s 1", 3), "true")
	assert.Empty(t, res.Commit, "nothing has changed")
	shown, err := s.Show(t.Context(), "", "s 1")
	require.NoError(t, err)
	assert.Equal(t, "everturn/s%201", shown.Branch)
	require.Len(t, shown.Commits, 2)
	assert.Equal(t, "turn/2.0", shown.Commits[0].Call)
	assert.Equal(t, []File{{Path: "d/a\tb", Added: 1}, {Path: "l", Added: 1}, {Path: "new/päth \"q\".txt", Added: 1},
		{Path: "run.sh", Added: 1}, {Path: "sub/b.txt", Removed: 1}}, shown.Files)
	assert.Contains(t, inStore(t, s, "ls-tree", shown.Head, "run.sh"), "100755", "the mode is kept")
	assert.Contains(t, inStore(t, s, "ls-tree", shown.Head, "l"), "120000")
	diff, head, err := s.Diff(t.Context(), "", "s 1", "run.sh")
	require.NoError(t, err)
	assert.Contains(t, diff, "+echo")
	assert.Equal(t, shown.Head, head)
	assert.Equal(t, before, users(t, dir))
	assert.NoFileExists(t, filepath.Join(dir, "HOOKED"))
	inStore(t, s, "fsck", "--strict", "--connectivity-only")
	assert.Equal(t, "main", userGit(t, dir, "rev-parse", "--abbrev-ref", "HEAD"))
	assert.Equal(t, 2, strings.Count(userGit(t, dir, "for-each-ref"), "\n")+1, "main and one of ours")
	_, err = s.Drop(t.Context(), "", "s 1")
	require.NoError(t, err)
	assert.NoDirExists(t, s.Path("", "s 1"))
	assert.Equal(t, before, users(t, dir))
	assert.Equal(t, "refs/heads/main", userGit(t, dir, "for-each-ref", "--format=%(refname)"))
}

// TestACallCommitsOnce repeats calls, as after a crash, and lets two processes commit for several sessions at once.
func TestACallCommitsOnce(t *testing.T) {
	dir, state := repository(t, nil), filepath.Join(t.TempDir(), ".everturn")
	processes := []*Store{openedIn(t, dir, state), openedIn(t, dir, state)}
	const sessions, calls = 3, 6
	var all sync.WaitGroup
	for session := range sessions {
		for n := range calls {
			for _, s := range processes { // both run the same call
				all.Go(func() {
					name := fmt.Sprintf("f%d", n)
					_, err := s.Change(context.WithoutCancel(t.Context()), call(fmt.Sprint(session), n), nil, Change{Title: "write",
						Run: func(dir string) ([]string, error) { return []string{name}, put(dir, name, "x") }})
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
		assert.Len(t, files(t, processes[1], fmt.Sprint(session)), calls)
		assert.Empty(t, command(t, processes[1], call(fmt.Sprint(session), 100+session), "true").Commit)
	}
	first := write(t, processes[0], call("0", 1), "f1", "other")
	assert.Equal(t, first, write(t, processes[1], call("0", 1), "f1", "another"))
}

// TestAnInterruptedCall kills a worker, as a panic does here, at each step of a call.
func TestAnInterruptedCall(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	s := opened(t, dir)
	write(t, s, call("s", 1), "b", "2\n")
	dies := func(a Action) {
		assert.Panics(t, func() {
			_, _ = s.Change(t.Context(), a, nil, Change{Title: "edit", Run: func(dir string) ([]string, error) {
				require.NoError(t, put(dir, "a", "half\n"))
				require.NoError(t, put(dir, "c/new", "half\n"))
				require.NoError(t, os.Remove(filepath.Join(dir, "b")))
				panic("killed")
			}})
		})
	}
	dies(call("s", 2))
	var seen map[string]string
	_, err := s.Change(t.Context(), call("s", 2), nil, Change{Title: "edit", Run: func(string) ([]string, error) {
		seen = files(t, s, "s")
		return nil, nil
	}})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "1\n", "b": "2\n"}, seen, "the same call begins again")
	left := inStore(t, s, "for-each-ref", "--format=%(objectname)", "refs/everturn/aside/s/")
	assert.Equal(t, "half", inStore(t, s, "show", left+":c/new"), "what it had done is kept")

	dies(call("s", 3))
	write(t, s, call("s", 4), "d", "4\n")
	assert.Equal(t, map[string]string{"a": "half\n", "c/new": "half\n", "d": "4\n"}, files(t, s, "s"))
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	var calls []string
	for _, c := range shown.Commits {
		calls = append(calls, c.Call)
	}
	assert.Equal(t, []string{"turn/4.0", "turn/3.0", "turn/1.0"}, calls, "another call leaves it to the interrupted one")
	require.NoError(t, os.RemoveAll(s.Path("", "s")))
	assert.Empty(t, command(t, s, call("s", 5), "test ! -e b; test -e d").Commit, "the tree is made again")
}

// TestAKilledGitIsOvercome leaves behind what a git does that was killed while it moved the branch.
func TestAKilledGitIsOvercome(t *testing.T) {
	s := opened(t, repository(t, nil))
	write(t, s, call("s", 1), "a", "1")
	lock := filepath.Join(s.store(), "refs/heads/everturn/s.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(lock, old, old))
	require.NoError(t, os.WriteFile(filepath.Join(s.store(), "objects/pack/tmp_pack_x"), []byte("half"), 0o600))
	write(t, s, call("s", 2), "b", "2")
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Len(t, shown.Commits, 2)
}

func TestMerge(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n", "b": "1\n"})
	s := opened(t, dir)
	userGit(t, dir, "branch", "other")
	in := MergeInput{Action: call("s", 9), Into: "other", Title: "merge it"}
	_, err := s.Merge(t.Context(), in)
	require.ErrorIs(t, err, ErrNoCanvas)
	write(t, s, call("s", 1), "a", "2\n")
	before := users(t, dir)
	for _, into := range []string{"main", "none", "everturn/x", "../main", "-x", ""} {
		in.Into = into
		_, err := s.Merge(t.Context(), in)
		require.Error(t, err, into)
		assert.Equal(t, into == "main", errors.As(err, new(*CheckedOutError)), into)
	}
	in.Into = "other"
	_, head, err := s.Diff(t.Context(), "", "s", "")
	require.NoError(t, err)
	for _, moved := range []MergeInput{{Commit: head, Files: []string{"b"}}, {Commit: head[:8], Files: []string{"a"}},
		{Commit: strings.Repeat("0", 40), Files: []string{"a"}}, {Commit: head, Files: nil}} {
		moved.Action, moved.Into, moved.Title = in.Action, in.Into, in.Title
		_, err := s.Merge(t.Context(), moved)
		require.ErrorAs(t, err, new(*MovedError), "%+v", moved)
	}
	assert.Equal(t, before, users(t, dir))
	in.Commit, in.Files = head[:12], []string{"a"}
	id, err := s.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, userGit(t, dir, "rev-parse", "other"))
	assert.Equal(t, "2", userGit(t, dir, "show", "other:a"))
	userGit(t, dir, "fsck", "--strict")
	again, err := s.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, again, "a call merges once")

	write(t, s, call("s", 10), "b", "2\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("3\n"), 0o644))
	userGit(t, dir, "commit", "-qam", "conflict")
	userGit(t, dir, "config", "user.name", "Bea")
	userGit(t, dir, "config", "user.email", "bea@example.org")
	in = MergeInput{Action: Action{Session: "s"}, Into: "main", Title: "merge it\n\nWhy.", ByUser: true, Squash: true,
		SignOff: true}
	_, err = s.Merge(t.Context(), in)
	var conflict *ConflictError
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, []string{"b"}, conflict.Paths)
	write(t, s, call("t", 1), "new/c", "3\n")
	in.Session = "t"
	id, err = s.Merge(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, id, userGit(t, dir, "rev-parse", "main"))
	assert.FileExists(t, filepath.Join(dir, "new/c"))
	assert.Equal(t, "Bea <bea@example.org>\nBea <bea@example.org>", userGit(t, dir, "log", "-1", "--format=%an <%ae>%n%cn <%ce>",
		"main"))
	assert.Equal(t, "merge it\n\nWhy.\n\nEverturn-Session: t\nEverturn-Base: itself\nSigned-off-by: Bea <bea@example.org>",
		userGit(t, dir, "log", "-1", "--format=%B", "main"))
	assert.Empty(t, userGit(t, dir, "status", "--porcelain", "--untracked-files=no"))
	_, err = s.Merge(t.Context(), MergeInput{Action: call("t", 12), Into: "main"})
	require.ErrorContains(t, err, "no changes")
}

// TestAMergeThatWasInterrupted has the merge in the user's branch, and the canvas as it was before.
func TestAMergeThatWasInterrupted(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	s := opened(t, dir)
	userGit(t, dir, "branch", "other")
	head := write(t, s, call("s", 1), "a", "2\n")
	base := userGit(t, dir, "rev-parse", "main")
	in := MergeInput{Action: call("s", 2), Into: "other", Title: "merge", Commit: head, Files: []string{"a"}}
	id, err := s.Merge(t.Context(), in)
	require.NoError(t, err)
	for _, merged := range []bool{true, false} {
		inStore(t, s, "update-ref", headRef("", "s"), head)
		inStore(t, s, "update-ref", baseRef("", "s"), base)
		if !merged {
			userGit(t, dir, "update-ref", "refs/heads/other", base)
		}
		require.NoError(t, s.mark(dirName("", "s"), unfinished{Action: in.Action, Follow: true, Merged: id, Into: "other"}))
		again, err := s.Merge(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, again, userGit(t, dir, "rev-parse", "other"))
		assert.Equal(t, "3", userGit(t, dir, "rev-list", "--count", "other"))
	}
}

func TestTakeConflictsAndFollows(t *testing.T) {
	s := opened(t, repository(t, map[string]string{"a": "1\n", "gone": "1\n"}))
	write(t, s, call("caller", 1), "b", "1\n")
	for _, agent := range []string{"one", "two"} {
		a := call(agent, 1)
		a.Turn = "turn of " + agent
		_, err := s.Change(t.Context(), a, from("caller"), Change{Title: "x", Run: func(dir string) ([]string, error) {
			return nil, errors.Join(put(dir, "a", agent+"\n"), put(dir, agent, "x"), os.Remove(filepath.Join(dir, "gone")))
		}})
		require.NoError(t, err)
		assert.Equal(t, "1\n", files(t, s, agent)["b"], "it begins where its caller stands")
	}
	id, err := s.Take(t.Context(), call("caller", 2), nil, "one")
	require.NoError(t, err)
	want := map[string]string{"a": "one\n", "b": "1\n", "one": "x"}
	assert.Equal(t, want, files(t, s, "caller"))
	again, err := s.Take(t.Context(), call("caller", 2), nil, "one")
	require.NoError(t, err)
	assert.Equal(t, id, again)
	_, err = s.Take(t.Context(), call("caller", 3), nil, "two")
	require.ErrorAs(t, err, new(*ConflictError))
	assert.Equal(t, want, files(t, s, "caller"))
}

func TestAnEmptyRepository(t *testing.T) {
	dir := t.TempDir()
	userGit(t, dir, "init", "-q")
	s := opened(t, dir)
	write(t, s, call("s", 1), "a", "1\n")
	write(t, s, call("s", 2), "b", "1\n")
	_, _, err := s.Read(t.Context(), call("early", 1), nil)
	require.NoError(t, err)
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Len(t, shown.Commits, 2)
	assert.Len(t, shown.Files, 2)
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "later")
	write(t, s, call("early", 1), "a", "1\n")
	shown, err = s.Show(t.Context(), "", "early")
	require.NoError(t, err)
	assert.Empty(t, shown.Base)
}

// TestAShallowClone has a repository with the last commit only.
func TestAShallowClone(t *testing.T) {
	whole, dir := repository(t, map[string]string{"a": "1\n"}), filepath.Join(t.TempDir(), "clone")
	userGit(t, whole, "commit", "-q", "--allow-empty", "-m", "second")
	userGit(t, whole, "clone", "-q", "--depth", "1", "file://"+whole, dir)
	userGit(t, dir, "branch", "other")
	s := opened(t, dir)
	write(t, s, call("s", 1), "a", "2\n")
	command(t, s, call("s", 2), "git add a; git commit -qm mine; test $(git log --format=%s | wc -l) = 2; echo 3 >b")
	_, err := s.Undo(t.Context(), "", "s")
	require.NoError(t, err)
	_, err = s.Merge(t.Context(), MergeInput{Action: call("s", 3), Into: "other", Title: "merge"})
	require.NoError(t, err)
	assert.Equal(t, "2", userGit(t, dir, "show", "other:a"))
	userGit(t, dir, "fsck", "--strict")
	userGit(t, dir, "fetch", "-q", "--unshallow")
	write(t, openedIn(t, dir, filepath.Dir(filepath.Dir(s.dir))), call("s", 4), "a", "4\n")
}

func TestAMissingRepositoryIsNamed(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), ".everturn")
	_, err := Open(t.Context(), Options{Repo: dir, State: state})
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "runtime.workspace")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err = Open(t.Context(), Options{Repo: dir, State: state})
	assert.ErrorContains(t, err, "runtime.workspace")
}

// TestADiffHidesNoChange checks that neither a NUL nor an attribute of the work tree makes git call a script binary.
func TestADiffHidesNoChange(t *testing.T) {
	dir := repository(t, map[string]string{".gitattributes": "*.sh -diff\n"})
	s := opened(t, dir)
	write(t, s, call("s", 1), "run.sh", "rm -rf build\n")
	write(t, s, call("s", 2), "nul", "rm -rf dist\n#\x00\n")
	diff, _, err := s.Diff(t.Context(), "", "s", "")
	require.NoError(t, err)
	assert.Contains(t, diff, "+rm -rf build")
	assert.Contains(t, diff, "+rm -rf dist")
}

// TestUserChanges begins a canvas with what the user has changed and not committed.
func TestUserChanges(t *testing.T) {
	dir, ran := hostile(t)
	s := opened(t, dir)
	changed, err := s.UserChanges(t.Context())
	require.NoError(t, err)
	assert.Empty(t, changed)
	require.NoError(t, put(dir, "a.txt", "staged\n"))
	userGit(t, dir, "-c", "core.fsmonitor=false", "add", "a.txt")
	require.NoError(t, errors.Join(put(dir, "a.txt", "mine\n"), put(dir, "new/f", "mine\n"), put(dir, "secret.key", "plain\n"),
		os.Remove(filepath.Join(dir, "sub/.gitattributes"))))
	_ = os.Remove(ran)
	before := users(t, dir)
	changed, err = s.UserChanges(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt", "new/f", "sub/.gitattributes"}, changed)
	res, err := s.TakeUserChanges(t.Context(), Action{Session: "s"})
	require.NoError(t, err)
	assert.Equal(t, []Skipped{{"secret.key", "git would pass it through the filter crypt"}}, res.Skipped)
	has := files(t, s, "s")
	assert.Equal(t, "mine\n", has["a.txt"])
	assert.Equal(t, "mine\n", has["new/f"])
	assert.Equal(t, "cipher\n", has["secret.key"])
	assert.NotContains(t, has, "sub/.gitattributes")
	assert.Equal(t, before, users(t, dir))
	assert.NoFileExists(t, ran)
	_, err = s.TakeUserChanges(t.Context(), Action{Session: "s"})
	require.Error(t, err)
}
