package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// large makes the store of a repository of 20,000 files.
func large(b *testing.B) *Store {
	b.Helper()
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
	s, err := Open(b.Context(), Options{Repo: dir, State: b.TempDir() + "/.everturn"})
	require.NoError(b, err)
	return s
}

// BenchmarkTree makes the tree of a session.
func BenchmarkTree(b *testing.B) {
	s := large(b)
	for n := 0; b.Loop(); n++ {
		_, _, err := s.Read(b.Context(), call(fmt.Sprint(n), 1), nil)
		require.NoError(b, err)
	}
}

// BenchmarkFileTool changes a file, as a file tool does. The change itself takes a fraction of a millisecond.
func BenchmarkFileTool(b *testing.B) {
	benchmarkChange(b, func(dir string, n int) ([]string, error) {
		return []string{"d1/new"}, os.WriteFile(dir+"/d1/new", fmt.Append(nil, n), 0o600)
	})
}

// BenchmarkCommand changes a file, as a command does: the whole tree is scanned.
func BenchmarkCommand(b *testing.B) {
	benchmarkChange(b, func(dir string, n int) ([]string, error) {
		return nil, os.WriteFile(dir+"/d1/new", fmt.Append(nil, n), 0o600)
	})
}

func benchmarkChange(b *testing.B, change func(dir string, n int) ([]string, error)) {
	s := large(b)
	_, _, err := s.Read(b.Context(), call("s", 0), nil)
	require.NoError(b, err)
	for n := 1; b.Loop(); n++ {
		res, err := s.Change(b.Context(), call("s", n), nil, Change{Title: "change",
			Run: func(dir string) ([]string, error) { return change(dir, n) }})
		require.NoError(b, err)
		require.NotEmpty(b, res.Commit)
	}
}
