package devserver

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNoProgramOfTheWorkingDirectoryIsTheServer checks that a repository that a stranger wrote cannot name the server
// with a program in its state folder.
func TestNoProgramOfTheWorkingDirectoryIsTheServer(t *testing.T) {
	gopath, hostile := t.TempDir(), t.TempDir()
	program(t, gopath, "go", `[ "$*" = "build -o temporal github.com/temporalio/cli/cmd/temporal" ] && cp go.mod temporal`)
	require.NoError(t, os.MkdirAll(filepath.Join(hostile, ".everturn", "bin"), 0o700))
	program(t, filepath.Join(hostile, ".everturn", "bin"), "temporal",
		"echo 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'")
	t.Chdir(hostile)
	t.Setenv("PATH", gopath+":/usr/bin:/bin")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	o := Options{Dir: ".everturn", Environ: os.Environ(), Progress: io.Discard}
	for range 2 { // the second time it is there
		path, _, err := FindTemporal(t.Context(), o)
		require.NoError(t, err)
		outside(t, path, hostile)
		module, err := os.ReadFile(path)
		require.NoError(t, err)
		// The driver v1.34.1 of CLI 1.5.1 fails every statement after one whose context has ended.
		assert.Contains(t, string(module), "modernc.org/sqlite v1.51.0")
	}
}

func outside(t *testing.T, path, dir string) {
	t.Helper()
	require.True(t, filepath.IsAbs(path), path)
	rel, err := filepath.Rel(dir, path)
	require.NoError(t, err)
	assert.False(t, filepath.IsLocal(rel), "%s is in %s", path, dir)
}
