package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/redact"
)

func textOf(t *testing.T, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(b)
}

func TestWriteEditPatchDelete(t *testing.T) {
	w, root := tree(t, map[string]string{"run.sh": "#!/bin/sh\necho one\necho two\n", "two": "a a"})
	require.NoError(t, os.Chmod(filepath.Join(root, "run.sh"), 0o750))
	done, err := w.write(t.Context(), WriteInput{Path: "docs/new/page.md", Content: "Hello\n"})
	require.NoError(t, err)
	assert.Equal(t, "wrote docs/new/page.md: 6 bytes", done)
	assert.Equal(t, "Hello\n", textOf(t, root, "docs/new/page.md"))
	_, err = w.write(t.Context(), WriteInput{Path: "two", Content: "b"})
	require.ErrorContains(t, err, "overwrite")
	done, err = w.write(t.Context(), WriteInput{Path: "two", Content: "b", Overwrite: true})
	require.NoError(t, err)
	assert.Contains(t, done, "\n-a a\n", "the result shows what was replaced")

	done, err = w.edit(t.Context(), EditInput{Path: "run.sh", OldString: "echo two", NewString: "echo three"})
	require.NoError(t, err)
	assert.Equal(t, "edited run.sh: 1 replaced, the first in line 3\n@@ -1,3 +1,3 @@\n #!/bin/sh\n echo one\n-echo two\n"+
		"+echo three", done)
	_, err = w.edit(t.Context(), EditInput{Path: "run.sh", OldString: "echo", NewString: "printf"})
	require.ErrorContains(t, err, "2 times")
	_, err = w.edit(t.Context(), EditInput{Path: "run.sh", OldString: "echo", NewString: "printf", ReplaceAll: true})
	require.NoError(t, err)
	_, err = w.edit(t.Context(), EditInput{Path: "run.sh", OldString: "echo", NewString: "printf"})
	require.ErrorContains(t, err, "does not contain")

	patch := "--- a/run.sh\n+++ b/run.sh\n@@ -1,3 +1,4 @@\n #!/bin/sh\n+set -e\n printf one\n printf three\n"
	_, err = w.patch(t.Context(), PatchInput{Path: "run.sh", Patch: patch})
	require.NoError(t, err)
	assert.Equal(t, "#!/bin/sh\nset -e\nprintf one\nprintf three\n", textOf(t, root, "run.sh"))
	_, err = w.patch(t.Context(), PatchInput{Path: "run.sh", Patch: patch})
	require.ErrorContains(t, err, "does not fit")
	for _, wrong := range []string{"", "what?", "@@ nonsense @@\n x\n",
		"@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/evil\n-#!/bin/evil\n+#!/bin/sh\n",
		"@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/evil\n nothing\n"} {
		_, err = w.patch(t.Context(), PatchInput{Path: "run.sh", Patch: wrong})
		require.Error(t, err, wrong)
	}
	info, err := os.Stat(filepath.Join(root, "run.sh"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), info.Mode().Perm(), "the mode is kept")

	_, err = w.delete(t.Context(), DeleteInput{Path: "run.sh"})
	require.NoError(t, err)
	_, err = w.delete(t.Context(), DeleteInput{Path: "run.sh"})
	require.ErrorIs(t, err, errNoFile)
	left, err := filepath.Glob(filepath.Join(root, ".*.everturn-new"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A diff is part of the prompt, so that it must not grow with the file, nor show what read_file hides.
func TestTheDiffOfAChange(t *testing.T) {
	const key = "sk-abcdefghijklmnopqrstuvwx"
	secrets := redact.New()
	secrets.Add(key)
	old := "key = " + key + "\n" + strings.Repeat("old line\n", 5000)
	text := "key = " + key + "\n" + strings.Repeat("new line\n", 5000)
	shown := WithDiff("done", []byte(old), []byte(text), secrets)
	assert.Contains(t, shown, "\n-old line\n")
	assert.Contains(t, shown, "[cut: ")
	assert.Less(t, len(shown), maxDiff+100)
	assert.NotContains(t, shown, key[:10])
	assert.Equal(t, "done", WithDiff("done", []byte("a\x00"), []byte("b"), secrets))
	assert.Equal(t, "done", WithDiff("done", nil, nil, secrets))
}

// TestNothingIsWrittenOutOfReach tries to change what is outside of the workspace, in a repository's own data, in the
// configuration, in instructions, in credentials, through links and in what is no file.
func TestNothingIsWrittenOutOfReach(t *testing.T) {
	w, root := tree(t, map[string]string{"plain": "canary", ".git/config": "canary", ".git/hooks/pre-commit": "canary",
		"agent.toml": "canary", "sub/agent.toml": "canary", "AGENTS.md": "canary", ".agents/skills/x/SKILL.md": "canary",
		".claude/skills/x/SKILL.md": "canary", ".everturn/journal.db": "canary", ".env": "canary", "key.pem": "canary",
		".aws/config": "canary", "other/name": "canary", "sub/.git/config": "canary", "nul": "canary\x00"})
	outside := filepath.Join(filepath.Dir(root), "secret")
	for link, to := range map[string]string{"out": "../secret", "up": "..", "git": ".git", "abs": outside,
		"absdir": filepath.Dir(root),
		"env":    ".env", "self": "self", "dangling": "nowhere", "gitfile": ".git/config", "conf": "agent.toml"} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, link)))
	}
	require.NoError(t, os.Link(outside, filepath.Join(root, "hard")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	paths := []string{
		"", ".", "/", "..", "../secret", "../new", "a/../../secret", "./../secret", outside, `..\secret`, "a\x00b", "plain/x",
		".git/config", ".GIT/config", ".Git/hooks/post-commit", "./.git/config", "sub/.git/config", "sub/./.git/new", ".git",
		".git/new/dir/file", ".everturn/journal.db", ".EVERTURN/x", "new/.git/hooks/pre-push",
		"agent.toml", "AGENT.TOML", "sub/agent.toml", "new/agent.toml", "AGENTS.md", "agents.MD", "sub/AGENTS.md", "CLAUDE.md",
		".agents/skills/new/SKILL.md", ".claude/skills/x/SKILL.md", ".Claude/new",
		".env", ".ENV", ".env.local", "new/.env", "key.pem", "new.PEM", ".aws/config", ".aws/new",
		"out", "up/secret", "up/new", "git/config", "git/hooks/pre-commit", "abs", "absdir/secret", "absdir/new", "env", "self",
		"self/x", "dangling", "gitfile", "conf", "hard", "fifo", "sub", "nul/x", "git/new/x", "up/workspace/agent.toml",
	}
	before := snapshot(t, filepath.Dir(root))
	for _, p := range paths {
		for name, err := range map[string]error{
			"write":  second(w.write(t.Context(), WriteInput{Path: p, Content: "gone", Overwrite: true})),
			"edit":   second(w.edit(t.Context(), EditInput{Path: p, OldString: "canary", NewString: "gone"})),
			"patch":  second(w.patch(t.Context(), PatchInput{Path: p, Patch: "@@ -1 +1 @@\n-canary\n+gone\n"})),
			"delete": second(w.delete(t.Context(), DeleteInput{Path: p})),
		} {
			assert.Error(t, err, "%s %q", name, p)
			if err != nil {
				assert.NotContains(t, err.Error(), root, "%s %q", name, p)
			}
		}
	}
	assert.Equal(t, before, snapshot(t, filepath.Dir(root)))
}

func second(_ string, err error) error { return err }

// snapshot describes everything below a directory.
func snapshot(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		text := ""
		if d.Type().IsRegular() {
			text = textOf(t, "", path)
		}
		list = append(list, fmt.Sprint(strings.TrimPrefix(path, dir), " ", d.Type(), " ", text))
		return nil
	}))
	return list
}

func TestSearchLeavesOutWhatGitIgnores(t *testing.T) {
	w, _ := tree(t, map[string]string{".gitignore": "# built\nbuild/\n*.log\n!keep.log\n/only-here\n", "a.txt": "word",
		"build/b.txt": "word", "x.log": "word", "keep.log": "word", "only-here": "word", "sub/only-here": "word",
		"sub/.gitignore": "*.tmp\n", "sub/c.tmp": "word", "d.tmp": "word", "sub/deep/e.tmp": "word"})
	out, err := w.search(t.Context(), SearchInput{Query: "word"})
	require.NoError(t, err)
	assert.Equal(t, "a.txt:1: word\nd.tmp:1: word\nkeep.log:1: word\nsub/only-here:1: word\n", out)
	out, err = w.search(t.Context(), SearchInput{Query: "word", Path: "sub/deep"})
	require.NoError(t, err)
	assert.Contains(t, out, "nothing found")
	out, err = w.search(t.Context(), SearchInput{Query: "word", Path: "x.log"})
	require.NoError(t, err)
	assert.Contains(t, out, "x.log:1", "a file that is named is searched")
}

// TestAnEditThatGrowsWithoutEndIsRefused checks that an edit needs little memory, whatever it would make of a file.
func TestAnEditThatGrowsWithoutEndIsRefused(t *testing.T) {
	in := EditInput{OldString: "a", NewString: strings.Repeat("b", 1<<20), ReplaceAll: true}
	_, _, err := Edit("a.txt", bytes.Repeat([]byte("a"), 1<<20), in, nil)
	assert.ErrorContains(t, err, "the maximum")
}
