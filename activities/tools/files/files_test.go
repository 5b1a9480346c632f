package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/beneath"
	"github.com/everturn/everturn/workflows/turn"
)

// tree writes files into a new workspace next to a secret outside of it.
func tree(t *testing.T, files map[string]string) (*workspace, string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "workspace")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("canary"), 0o600))
	require.NoError(t, os.Mkdir(root, 0o700))
	for name, text := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	w, err := open(root, Options{Deny: []string{".env*", "*.pem", ".aws/"}, Write: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.root.Close() })
	return w, root
}

func TestList(t *testing.T) {
	w, root := tree(t, map[string]string{
		"README.md": "hello", "src/main.go": "package main", "src/a/b/c/deep.go": "", ".git/config": "x", "a\nb": "",
		"node_modules/x/y.js": "x", ".everturn/journal.db": "x", ".github/ci.yml": "x",
	})
	require.NoError(t, os.Symlink("../secret", filepath.Join(root, "out")))
	out, err := w.list(t.Context(), ListInput{})
	require.NoError(t, err)
	assert.Equal(t,
		".github/\n.github/ci.yml\t1\nREADME.md\t5\n\"a\\nb\"\t0\nout\tlink\nsrc/\nsrc/a/\nsrc/a/b/\nsrc/main.go\t12\n", out)

	out, err = w.list(t.Context(), ListInput{Path: "src", Depth: 1})
	require.NoError(t, err)
	assert.Equal(t, "src/a/\nsrc/main.go\t12\n", out)
}

// TestAShortReadMakesProgress checks that reading on with the offsets that the tool reports ends, however small the
// limit is.
func TestAShortReadMakesProgress(t *testing.T) {
	const text = "a€😀é"
	w, _ := tree(t, map[string]string{"x": text})
	for limit := 1; limit <= utf8.UTFMax; limit++ {
		var all string
		for offset := int64(0); offset < int64(len(text)); {
			out, err := w.read(t.Context(), ReadInput{Path: "x", Offset: offset, Limit: limit})
			require.NoError(t, err)
			body, note, cut := strings.Cut(out, "\n[cut: ")
			all += body
			if !cut {
				break
			}
			next := offset
			_, err = fmt.Sscanf(note[strings.Index(note, "offset "):], "offset %d", &next)
			require.NoError(t, err)
			require.Greater(t, next, offset, "limit %d", limit)
			offset = next
		}
		assert.Equal(t, text, all)
	}
}

func TestListIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range maxEntries + 1 {
		files[fmt.Sprintf("f%04d", i)] = ""
	}
	w, _ := tree(t, files)
	out, err := w.list(t.Context(), ListInput{})
	require.NoError(t, err)
	assert.Equal(t, maxEntries+1, strings.Count(out, "\n"))
	assert.Contains(t, out, "[cut: only the first 500 entries")
}

func TestNothingLeavesTheWorkspace(t *testing.T) {
	w, root := tree(t, map[string]string{"a/file": "x"})
	require.NoError(t, os.Symlink("../secret", filepath.Join(root, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(root), filepath.Join(root, "up")))
	require.NoError(t, os.Symlink("../..", filepath.Join(root, "a", "up")))
	for _, name := range []string{
		"../secret", "a/../../secret", filepath.Join(filepath.Dir(root), "secret"), "link", "up/secret", "a/up/secret",
		"a\\..\\..\\secret",
		"..", "/", "up", "a/up", "\x00", "./../secret",
	} {
		text, err := w.read(t.Context(), ReadInput{Path: name})
		assert.Error(t, err, name)
		assert.NotContains(t, text, "canary")
		list, err := w.list(t.Context(), ListInput{Path: name})
		assert.Error(t, err, name)
		assert.NotContains(t, list, "secret")
		found, err := w.search(t.Context(), SearchInput{Path: name, Query: "canary"})
		assert.NotContains(t, found, "canary")
		if name != "link" {
			assert.Error(t, err, name)
			assert.NotContains(t, err.Error(), filepath.Dir(root)+"/workspace", "an error tells where the workspace is")
		}
	}
	found, err := w.search(t.Context(), SearchInput{Query: "canary"})
	require.NoError(t, err)
	assert.Equal(t, "[nothing found in 1 files]\n", found)
}

func TestReadInPieces(t *testing.T) {
	text := strings.Repeat("0123456789", 20000) + "é"
	w, _ := tree(t, map[string]string{"big": text, "small": "hello\n", "empty": "", "umlaut": "aébcé"})
	out, err := w.read(t.Context(), ReadInput{Path: "./small"})
	require.NoError(t, err)
	assert.Equal(t, "hello\n", out)
	out, err = w.read(t.Context(), ReadInput{Path: "empty"})
	require.NoError(t, err)
	assert.Empty(t, out)

	out, err = w.read(t.Context(), ReadInput{Path: "umlaut", Limit: 6})
	require.NoError(t, err)
	assert.Equal(t, "aébc\n[cut: bytes 0 to 5 of 7; read on with offset 5]\n", out)
	out, err = w.read(t.Context(), ReadInput{Path: "umlaut", Offset: 2})
	require.NoError(t, err)
	assert.Equal(t, "bcé", out)

	var whole strings.Builder
	for offset := int64(0); ; {
		out, err := w.read(t.Context(), ReadInput{Path: "big", Offset: offset})
		require.NoError(t, err)
		require.LessOrEqual(t, len(out), 64<<10)
		body, note, cut := strings.Cut(out, "\n[cut: ")
		whole.WriteString(body)
		if !cut {
			break
		}
		_, err = fmt.Sscanf(note[strings.Index(note, "offset"):], "offset %d", &offset)
		require.NoError(t, err)
	}
	assert.Equal(t, text, whole.String())
	_, err = w.read(t.Context(), ReadInput{Path: "small", Offset: 7})
	assert.ErrorContains(t, err, "outside of its 6 bytes")
	_, err = w.read(t.Context(), ReadInput{Path: "small", Offset: -1})
	assert.Error(t, err)
}

func TestReadRefusesWhatIsNoText(t *testing.T) {
	w, root := tree(t, map[string]string{"dir/x": "", "program": "\x7fELF\x00\x01"})
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	out, err := w.read(t.Context(), ReadInput{Path: "program"})
	require.NoError(t, err)
	assert.Equal(t, "[program is a binary file of 6 bytes; it is not shown]\n", out)
	for name, want := range map[string]string{"dir": "is a directory", "fifo": "not a regular file",
		"none": "no such file", "dir/x/y": "dir/x/y"} {
		_, err := w.read(t.Context(), ReadInput{Path: name})
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), root)
	}
}

func TestSearch(t *testing.T) {
	w, root := tree(t, map[string]string{
		"a.go": "one\n\tTwo(x)\nthree", "b/c.txt": "two(x)\r\ntwo", ".git/x": "two(x)", "bin": "two(x)\x00",
		"long": strings.Repeat("é", 5000) + "two(x)",
	})
	require.NoError(t, os.Symlink("a.go", filepath.Join(root, "link.go")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	out, err := w.search(t.Context(), SearchInput{Query: "two(x)", Path: "b"})
	require.NoError(t, err)
	assert.Equal(t, "b/c.txt:1: two(x)\n", out)

	out, err = w.search(t.Context(), SearchInput{Query: "TWO(X)", IgnoreCase: true})
	require.NoError(t, err)
	assert.Contains(t, out, "a.go:2: Two(x)\n")
	assert.Contains(t, out, "b/c.txt:1: two(x)\n")
	assert.NotContains(t, out, ".git")
	assert.NotContains(t, out, "bin:")
	assert.Regexp(t, `long:1: …é+two\(x\)…\n`, out)
	assert.Less(t, len(out), 1000)
	assert.True(t, utf8.ValidString(out))

	out, err = w.search(t.Context(), SearchInput{Query: "^t..ee$", Regexp: true, Glob: "*.go"})
	require.NoError(t, err)
	assert.Equal(t, "a.go:3: three\n", out)
	for _, bad := range []SearchInput{{}, {Query: "(", Regexp: true}, {Query: "x", Glob: "["},
		{Query: "x", Path: "nope"}} {
		_, err := w.search(t.Context(), bad)
		assert.Error(t, err)
	}
}

func TestSearchIsBounded(t *testing.T) {
	w, _ := tree(t, map[string]string{"many": strings.Repeat("x\n", maxMatches+1)})
	out, err := w.search(t.Context(), SearchInput{Query: "x"})
	require.NoError(t, err)
	assert.Contains(t, out, "[cut: only the first 200 matches")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err = w.search(ctx, SearchInput{Query: "x"})
	require.NoError(t, err)
	assert.Contains(t, out, "[cut: out of time")
}

func TestRegisteredToolsAreQuickAndHarmless(t *testing.T) {
	_, root := tree(t, map[string]string{"a.txt": "content"})
	h := tools.New(tools.Options{}, nil)
	require.NoError(t, Register(h, root, Options{}))
	require.Error(t, Register(h, filepath.Join(root, "nope"), Options{}))
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	c := h.Catalogues(t.Context())[0]
	require.Len(t, c.Tools, 3)
	for _, d := range c.Tools {
		assert.Equal(t, turn.ActivityLocal, d.Activity)
		assert.Equal(t, turn.RiskLow, d.Risk)
		assert.True(t, d.Repeatable)
	}
	r, err := h.Call(t.Context(), turn.ToolRequest{Tool: "local/read_file", Hash: c.Tools[1].Hash,
		Arguments: []byte(`{"path":"a.txt"}`)})
	require.NoError(t, err)
	assert.Equal(t, "content", r.Text)
}

func TestFilesOfCredentialsAreNotRead(t *testing.T) {
	w, root := tree(t, map[string]string{
		".env": "canary", "sub/.ENV.Local": "canary", ".env.example": "sample", "deploy/tls/server.PEM": "canary",
		"home/.aws/cli/cache.json": "canary",
		"id_rsa":                   "canary", "id_map.go": "sample", ".docker/config.json": "canary", "config.json": "sample",
		"pem":        "sample",
		"agent.toml": "canary",
	})
	w.Deny = config.Default().LocalFiles.Deny
	for link, target := range map[string]string{"notes.txt": ".env", "cache": "home/.aws", "home/again": "../cache/cli"} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, name := range []string{".env", "sub/.ENV.Local", "./sub//.ENV.Local", "deploy/tls/server.PEM",
		"home/.aws/cli/cache.json", "id_rsa", ".docker/config.json",
		"agent.toml", "notes.txt", "cache/cli/cache.json", "home/again/cache.json"} {
		text, err := w.read(t.Context(), ReadInput{Path: name})
		assert.ErrorIs(t, err, errDenied, name)
		assert.Empty(t, text)
		found, err := w.search(t.Context(), SearchInput{Path: name, Query: "canary"})
		assert.ErrorIs(t, err, errDenied, name)
		assert.Empty(t, found)
	}
	for _, name := range []string{".env.example", "id_map.go", "config.json", "pem"} {
		text, err := w.read(t.Context(), ReadInput{Path: name})
		require.NoError(t, err)
		assert.Equal(t, "sample", text, name)
	}
	for _, dir := range []string{"home/.aws", "cache", "home/again"} {
		_, err := w.list(t.Context(), ListInput{Path: dir})
		assert.ErrorIs(t, err, errDenied, dir)
	}
	list, err := w.list(t.Context(), ListInput{})
	require.NoError(t, err)
	assert.Contains(t, list, ".env\t6\n", "it is named")
	assert.Contains(t, list, "home/.aws/\n")
	assert.NotContains(t, list, "cache.json")

	found, err := w.search(t.Context(), SearchInput{Query: "canary|sample", Regexp: true})
	require.NoError(t, err)
	assert.NotContains(t, found, "canary")
	assert.Contains(t, found, "[not searched: 6 files that look like credentials, 0 with several hard links]",
		"and those below a directory of credentials")
	w.Deny = nil
	text, err := w.read(t.Context(), ReadInput{Path: "notes.txt"})
	require.NoError(t, err)
	assert.Equal(t, "canary", text, "the operator can allow it")
}

func TestHardLinksAreNotFollowed(t *testing.T) {
	w, root := tree(t, map[string]string{"own": "canary"})
	require.NoError(t, os.Link(filepath.Join(filepath.Dir(root), "secret"), filepath.Join(root, "innocent.txt")))
	text, err := w.read(t.Context(), ReadInput{Path: "innocent.txt"})
	assert.ErrorIs(t, err, errHardLink)
	assert.Empty(t, text)
	found, err := w.search(t.Context(), SearchInput{Query: "canary"})
	require.NoError(t, err)
	assert.Equal(t, "own:1: canary\n[not searched: 0 files that look like credentials, 1 with several hard links]\n",
		found)
	w.HardLinks = true
	text, err = w.read(t.Context(), ReadInput{Path: "innocent.txt"})
	require.NoError(t, err)
	assert.Equal(t, "canary", text)
}

func TestGitAndTheJournalAreOutOfReach(t *testing.T) {
	w, root := tree(t, map[string]string{".git/config": "canary", "sub/.Git/HEAD": "canary",
		".everturn/journal.db": "canary", "worktree/.git": "canary"})
	require.NoError(t, os.Symlink(".git", filepath.Join(root, "repository")))
	for _, name := range []string{".git", ".git/config", "./.git", "sub/.Git/HEAD", ".everturn", ".everturn/journal.db",
		"repository", "repository/config", "worktree/.git"} {
		for _, use := range []func() (string, error){
			func() (string, error) { return w.read(t.Context(), ReadInput{Path: name}) },
			func() (string, error) { return w.list(t.Context(), ListInput{Path: name}) },
			func() (string, error) { return w.search(t.Context(), SearchInput{Path: name, Query: "canary"}) },
		} {
			out, err := use()
			assert.ErrorContains(t, err, "out of the file tools' reach", name)
			assert.Empty(t, out)
		}
	}
	found, err := w.search(t.Context(), SearchInput{Query: "canary"})
	require.NoError(t, err)
	assert.Equal(t, "[nothing found in 0 files]\n", found)
}

func TestLargeQueriesAreRefused(t *testing.T) {
	w, _ := tree(t, map[string]string{"big.txt": "text"})
	for query, bound := range map[string]string{
		strings.Repeat("[^z]{0,1000}", 10) + "z": "2500", strings.Repeat("[^z]{0,9}", 300): "1000",
		strings.Repeat("a", 1001): "1000",
	} {
		_, err := w.search(t.Context(), SearchInput{Query: query, Regexp: true})
		assert.ErrorContains(t, err, bound, "the model is told the bound")
	}
	for query, re := range map[string]bool{strings.Repeat(".", 1000): false, "t.{0,1000}t": true} {
		_, err := w.search(t.Context(), SearchInput{Query: query, Regexp: re, IgnoreCase: true})
		assert.NoError(t, err)
	}
}

// cancelledLater is a context that is cancelled after it was checked looks times.
type cancelledLater struct {
	context.Context
	looks int
}

func (c *cancelledLater) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestASearchInALongLineEndsWithItsContext checks that a context ends a search within a line.
func TestASearchInALongLineEndsWithItsContext(t *testing.T) {
	w, _ := tree(t, map[string]string{"big.txt": strings.Repeat("ab ", maxSearchFile/3)})
	s := &search{call: w.begin()}
	var err error
	s.pattern, s.instructions, err = compile(SearchInput{Query: strings.Repeat("[^z]{0,100}", 10) + "z", Regexp: true})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.run(&cancelledLater{t.Context(), 3}, ".", "") }() // run itself has no time limit
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, context.Canceled)
	case <-time.After(20 * time.Second):
		t.Fatal("the search goes on")
	}
}

// TestLongLinesMatchAsAWhole checks that a line that is matched at once gives the same match as one that is read rune
// by rune.
func TestLongLinesMatchAsAWhole(t *testing.T) {
	long := "  begin " + strings.Repeat("ü \xff", 3<<16) + " needle end"
	w, _ := tree(t, map[string]string{"big.txt": long + "\nneedle\n"})
	for query, want := range map[string]string{
		"needle end$": "big.txt:1: …", "^  begin.{0,9}": "big.txt:1: …begin", "^needle$": "big.txt:2: needle\n",
		"(?s)begin.*end": "big.txt:1: …begin",
	} {
		out, err := w.search(t.Context(), SearchInput{Query: query, Regexp: true})
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(out, "big.txt:"), query)
		assert.Contains(t, out, want)
		if query == "needle end$" {
			assert.Contains(t, out, "needle end")
		}
	}
}

// TestAWalkEndsAmongTheEntriesOfADirectory ends a walk while it visits a large directory.
func TestAWalkEndsAmongTheEntriesOfADirectory(t *testing.T) {
	files := map[string]string{}
	for i := range 500 {
		files[strconv.Itoa(i)] = ""
	}
	w, _ := tree(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	err := w.begin().walk(ctx, ".", 9, func(string, beneath.Entry) error {
		visited++
		cancel()
		return nil
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, visited)
}
