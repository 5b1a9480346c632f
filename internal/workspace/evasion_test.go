package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile is a repository whose configuration, attributes and hooks run programs, if git heeds them. The programs
// write the file RAN beside the repository.
func hostile(t *testing.T) (dir, ran string) {
	t.Helper()
	dir = repository(t, map[string]string{"a.txt": "one\n", "big.bin": "version https://git-lfs\n", "secret.key": "cipher\n",
		".gitattributes": "*.bin filter=lfs\n*.key filter=crypt\na.txt merge=evil diff=evil\n", "sub/.gitattributes": "* -filter\n"})
	ran = filepath.Join(filepath.Dir(dir), "RAN")
	for key, value := range map[string]string{"filter.lfs.clean": "touch " + ran, "filter.lfs.smudge": "touch " + ran,
		"filter.crypt.clean": "touch " + ran, "merge.evil.driver": "touch " + ran, "diff.evil.command": "touch " + ran,
		"diff.evil.textconv": "touch " + ran, "core.fsmonitor": "touch " + ran, "merge.renormalize": "true",
		"core.sshCommand": "touch " + ran, "gpg.program": "touch " + ran, "commit.gpgSign": "true"} {
		userGit(t, dir, "config", key, value)
	}
	_ = os.Remove(ran)
	_ = os.Remove(filepath.Join(dir, "HOOKED"))
	return dir, ran
}

// TestNothingRunsOnTheHost makes everything of a tree that git could run, by the user's repository and by commands in
// the tree, and then lets the host commit, show, merge, go back and drop.
func TestNothingRunsOnTheHost(t *testing.T) {
	dir, ran := hostile(t)
	userGit(t, dir, "branch", "other")
	s := opened(t, dir)
	res := command(t, s, call("s", 1), fmt.Sprintf(`
		git config core.fsmonitor 'touch %[1]s'; git config filter.x.clean 'touch %[1]s'; git config merge.x.driver 'touch %[1]s'
		git config core.hooksPath hooks; mkdir hooks; printf '#!/bin/sh\ntouch %[1]s\n' >hooks/reference-transaction
		chmod +x hooks/*; cp hooks/reference-transaction .git/hooks 2>/dev/null || true
		printf '* filter=x merge=x diff=x\n' >>sub/.gitattributes; echo two >>a.txt; echo two >sub/b
		git init -q nested; git -C nested config core.fsmonitor 'touch %[1]s'; echo n >nested/f
		mkdir fake; echo 'gitdir: %[2]s/.git' >fake/.git; echo f >fake/f
		mkdir -p .GIT/hooks 'deep/.git '; echo x >.GIT/hooks/post-commit; echo x >'deep/.git /config'; echo x >'deep/git~1'
		rm -rf .git/objects/info; ln -s %[2]s/.git/hooks .git/link; ln -s %[2]s outside; ln a.txt hard
		`, ran, dir))
	skipped := map[string]bool{}
	for _, f := range res.Skipped {
		skipped[f.Path] = true
	}
	assert.Equal(t, map[string]bool{"a.txt": true, "hard": true}, skipped)
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	var names []string
	for _, f := range shown.Files {
		names = append(names, f.Path)
	}
	assert.Equal(t, []string{"fake/f", "hooks/reference-transaction", "nested/f", "outside",
		"sub/.gitattributes", "sub/b"}, names)
	_, _, err = s.Diff(t.Context(), "", "s", "")
	require.NoError(t, err)
	res = command(t, s, call("s", 2), "rm hard; echo three >>a.txt; echo plain >secret.key; rm .gitattributes; rm big.bin")
	assert.Equal(t, []Skipped{{"big.bin", "git would pass it through the filter lfs"},
		{"secret.key", "git would pass it through the filter crypt"}}, res.Skipped, "also with the attributes deleted")
	userGit(t, dir, "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false", "worktree", "add", "-q", t.TempDir()+"/w",
		"other")
	_ = os.Remove(ran)
	_ = os.Remove(filepath.Join(dir, "HOOKED"))
	userGit(t, dir, "-c", "core.hooksPath=/dev/null", "branch", "third", "other")
	_, err = s.Merge(t.Context(), MergeInput{Action: call("s", 3), Into: "third", Title: "merge"})
	require.NoError(t, err)
	assert.Equal(t, "cipher", userGit(t, dir, "show", "third:secret.key"), "what is skipped is as it was")
	assert.Equal(t, "one\ntwo\nthree", userGit(t, dir, "show", "third:a.txt"))
	_, err = s.Drop(t.Context(), "", "s")
	require.NoError(t, err)
	assert.NoFileExists(t, ran)
	assert.NoFileExists(t, filepath.Join(dir, "HOOKED"))
}

// TestALinkInTheWayIsNotFollowed has a command that replaces directories of the tree by links before the host writes.
func TestALinkInTheWayIsNotFollowed(t *testing.T) {
	dir := repository(t, map[string]string{"d/e/f": "1\n", "d/g": "1\n", "top": "1\n"})
	s := opened(t, dir)
	outside := t.TempDir()
	require.NoError(t, put(outside, "e/f", "mine\n"))
	require.NoError(t, put(outside, "g", "mine\n"))
	write(t, s, call("agent", 1), "d/e/f", "2\n")
	write(t, s, call("agent", 2), "d/new", "2\n")
	tree := filepath.Join(s.Path("", "s"))
	a := call("s", 1)
	a.Turn = "other"
	assert.Panics(t, func() {
		_, _ = s.Change(t.Context(), a, nil, Change{Run: func(string) ([]string, error) {
			require.NoError(t, os.RemoveAll(filepath.Join(tree, "d")))
			require.NoError(t, os.Symlink(outside, filepath.Join(tree, "d")))
			require.NoError(t, os.Remove(filepath.Join(tree, "top")))
			require.NoError(t, os.MkdirAll(filepath.Join(tree, "top/x/y"), 0o755))
			panic("killed")
		}})
	})
	_, err := s.Take(t.Context(), a, nil, "agent")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"d/e/f": "2\n", "d/g": "1\n", "d/new": "2\n", "top": "1\n"}, files(t, s, "s"))
	assert.Equal(t, "mine\n", string(must(os.ReadFile(filepath.Join(outside, "e/f")))))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestASubmoduleStaysEmpty has a submodule into which a command writes.
func TestASubmoduleStaysEmpty(t *testing.T) {
	inner, dir := repository(t, map[string]string{"x": "1\n"}), repository(t, map[string]string{"a": "1\n"})
	userGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub")
	userGit(t, dir, "commit", "-qm", "sub")
	s := opened(t, dir)
	res := command(t, s, call("s", 1), "test -d sub; test ! -e sub/x; echo x >sub/y; echo 2 >a")
	assert.Empty(t, res.Skipped)
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Equal(t, []File{{Path: "a", Added: 1, Removed: 1}}, shown.Files)
	assert.Contains(t, inStore(t, s, "ls-tree", shown.Head, "sub"), "160000")
}

// TestOutOfReach has names that no commit gets.
func TestOutOfReach(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".git", ".GIT", ".git.", ".git ", "git~1", ".g\u200cit", ".git::$INDEX", ".everturn",
		"a\nb", "..."} {
		assert.False(t, isOrdinary(name), "%q", name)
	}
	for _, name := range []string{"a", ".gitignore", "git", "ä b", "...a", "a:b", "\x01"} {
		assert.Equal(t, name != "\x01", isOrdinary(name), "%q", name)
	}
	names := map[string]bool{}
	for _, c := range [][2]string{{"", "a"}, {"", "A"}, {"", "a/b"}, {"", "a%2Fb"}, {"", "a.lock"}, {"", ".."},
		{"", "@{x"}, {"t", "a"}, {"", "tenant:t/a"}, {"", "tenant:t:a"}} {
		names[Branch(c[0], c[1])] = true
		assert.Less(t, len(dirName(c[0], strings.Repeat(c[1], 200))), 100)
	}
	assert.Len(t, names, 9,
		"only a tenant's session and one that is named like it share a branch, and there is no such name")
}

// TestTheRepositoryOfAnotherFolderIsRefused has folders with a .git that leads to another repository of the user, and
// those of work trees and submodules, which are the user's own.
func TestTheRepositoryOfAnotherFolderIsRefused(t *testing.T) {
	at, state := t.TempDir(), filepath.Join(t.TempDir(), ".everturn")
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
			userGit(t, folder, "init", "-q")
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
		_, err := Open(t.Context(), Options{Repo: folder, State: state})
		assert.ErrorContains(t, err, "is not a work tree of", name)
	}
	tree := filepath.Join(at, "tree")
	userGit(t, private, "worktree", "add", "-q", tree)
	write(t, opened(t, tree), call("s", 1), "plan", "other\n")
	outer := repository(t, nil)
	userGit(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", private, "sub")
	write(t, opened(t, filepath.Join(outer, "sub")), call("s", 1), "plan", "other\n")
	bare := filepath.Join(at, "bare.git")
	userGit(t, at, "clone", "-q", "--bare", private, bare)
	write(t, opened(t, bare), call("s", 1), "plan", "other\n")
}
