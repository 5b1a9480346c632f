package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These exist outside of the fuzzed workspace: the text of a file, and the file's own name.
const (
	outsideText = "canary-5c1f-outside"
	outsideName = "hidden-5c1f"
)

// FuzzConfinement checks that no path of a model and no link in the workspace makes a tool read, name or create
// anything outside, that no error reveals the workspace's location, and that files inside stay readable.
func FuzzConfinement(f *testing.F) {
	for _, target := range []string{"../" + outsideName, "..", "../..", "/", "/etc", ".", "inside", "dir", "dir/../..",
		"loop", "../new", "@", "@/" + outsideName, "@/workspace/inside", "\x00", "dir/up/../" + outsideName} {
		for _, name := range []string{"loop", "loop/" + outsideName, "dir/loop/" + outsideName, "inside"} {
			f.Add(target, name, "loop", uint8(0))
		}
	}
	for _, name := range []string{"", ".", "..", "/", "a/../../" + outsideName, "../" + outsideName, "up/" + outsideName,
		"dir/up/" + outsideName, "out", "away", "@/" + outsideName, "@/workspace/inside",
		"./dir//file", "dir/file/", "dir/file/..", `dir\..\..\` + outsideName, "inside\x00.txt", "chain", "dangling",
		".git/config", "\xff", strings.Repeat("a/", 5000), strings.Repeat("up/workspace/", 50) + "inside"} {
		f.Add("inside", name, "dir/more", uint8(3))
	}
	above := fuzzedTree(f)
	root := filepath.Join(above, "workspace")
	r, err := os.OpenRoot(root)
	require.NoError(f, err)
	f.Cleanup(func() { _ = r.Close() })
	w, err := open(root, Options{Deny: []string{".env*", "*.pem", ".aws/"}})
	require.NoError(f, err)
	f.Cleanup(func() { _ = w.root.Close() })
	before := surroundings(f, above)
	f.Fuzz(func(t *testing.T, target, name, link string, depth uint8) {
		target, name = strings.ReplaceAll(target, "@", above), strings.ReplaceAll(name, "@", above)
		if link != "" && len(link) < 100 && r.Symlink(target, link) == nil {
			defer func() { require.NoError(t, r.Remove(link)) }()
		}
		output := use(t, w, name, int(depth))
		if !strings.Contains(name, above) {
			require.NotContains(t, output, above, "the model is told where the workspace lies")
		}
		require.NotContains(t, output, outsideText)
		if !strings.Contains(name+link, outsideName) {
			require.NotContains(t, output, outsideName, "what lies outside was listed")
		}
		require.Equal(t, before, surroundings(t, above), "something outside was made or changed")
		requireConfined(t, w, root, name)
	})
}

// fuzzedTree creates a workspace with links that point outside, and their targets.
func fuzzedTree(f *testing.F) string {
	f.Helper()
	above := f.TempDir()
	for name, text := range map[string]string{outsideName: outsideText, "workspace/inside": "inside",
		"workspace/dir/file": "file", "workspace/.git/config": "config"} {
		file := filepath.Join(above, name)
		require.NoError(f, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(f, os.WriteFile(file, []byte(text), 0o600))
	}
	for link, target := range map[string]string{
		"out": "../" + outsideName, "up": "..", "dir/up": "../..", "away": filepath.Join(above, outsideName),
		"chain":    "dir/up/" + outsideName,
		"dangling": "../new", "home": "dir/../inside", "same": "dir",
	} {
		require.NoError(f, os.Symlink(target, filepath.Join(above, "workspace", link)))
	}
	return above
}

// surroundings returns the names outside of the workspace and the text of the file there.
func surroundings(t testing.TB, above string) string {
	t.Helper()
	entries, err := os.ReadDir(above)
	require.NoError(t, err)
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Name() + "\n")
	}
	text, err := os.ReadFile(filepath.Join(above, outsideName))
	require.NoError(t, err)
	return b.String() + string(text)
}

// use calls every tool with the path and returns everything that a model would see.
func use(t *testing.T, w *workspace, name string, depth int) string {
	t.Helper()
	var output []string
	add := func(out string, err error) {
		if err != nil {
			require.Empty(t, out, "a refusal shows nothing")
			out = err.Error()
		}
		output = append(output, out)
	}
	add(w.read(t.Context(), ReadInput{Path: name}))
	add(w.list(t.Context(), ListInput{Path: name, Depth: depth}))
	add(w.search(t.Context(), SearchInput{Path: name, Query: "canary.*|file|inside", Regexp: true}))
	return strings.Join(output, "\n")
}

// requireConfined resolves the path with the file system itself and compares the results.
func requireConfined(t *testing.T, w *workspace, root, name string) {
	t.Helper()
	text, err := w.read(t.Context(), ReadInput{Path: name})
	real, lost := filepath.EvalSymlinks(filepath.Join(root, name))
	inside := lost == nil && (real == root || strings.HasPrefix(real, root+"/"))
	if lost == nil && !inside {
		require.Error(t, err, "%q leads to %s", name, real)
		_, err = w.list(t.Context(), ListInput{Path: name})
		require.Error(t, err, "%q leads to %s", name, real)
	}
	if err == nil {
		require.True(t, inside, "%q was read and leads nowhere inside", name)
		want, err := os.ReadFile(real)
		require.NoError(t, err)
		require.Equal(t, string(want), text)
	}
	for path, want := range map[string]string{"inside": "inside", "./dir//file": "file", "home": "inside",
		"same/file": "file"} {
		text, err := w.read(t.Context(), ReadInput{Path: path})
		require.NoError(t, err, "what is inside can be read")
		require.Equal(t, want, text)
	}
}
