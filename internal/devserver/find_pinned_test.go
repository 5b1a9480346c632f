package devserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheVersionThatIsInstalledIsTheOneThatToolsPins(t *testing.T) {
	b, err := os.ReadFile("../../tools/go.mod")
	require.NoError(t, err)
	version := pinned[strings.LastIndexByte(pinned, '@')+1:]
	assert.Contains(t, string(b), "github.com/temporalio/cli "+version)
}

// A repository that a stranger wrote can bring a state folder with a program in it, and a go.mod that says it is ours.
func TestNoProgramOfTheWorkingDirectoryIsTheServer(t *testing.T) {
	gopath, hostile := t.TempDir(), t.TempDir()
	program(t, gopath, "go", `if [ "$GOBIN" ]; then echo > $GOBIN/temporal; else echo $PWD/temporal; fi`)
	require.NoError(t, os.MkdirAll(filepath.Join(hostile, ".everturn", "bin"), 0o700))
	program(t, filepath.Join(hostile, ".everturn", "bin"), "temporal",
		"echo 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'")
	t.Chdir(hostile)
	t.Setenv("PATH", gopath)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	o := Options{Dir: ".everturn", Environ: []string{"PATH=" + gopath}}
	path, _, err := FindTemporal(t.Context(), o)
	require.NoError(t, err)
	outside(t, path, hostile)

	require.NoError(t, os.WriteFile("go.mod", []byte(module), 0o600))
	require.NoError(t, os.Mkdir("tools", 0o700))
	require.NoError(t, os.WriteFile("tools/go.mod", []byte("module tools\n"), 0o600))
	path, _, err = FindTemporal(t.Context(), o)
	require.NoError(t, err)
	outside(t, path, hostile)

	path, err = install(t.Context(), o)
	require.NoError(t, err)
	outside(t, path, hostile)
	assert.FileExists(t, path)
}

func outside(t *testing.T, path, dir string) {
	t.Helper()
	require.True(t, filepath.IsAbs(path), path)
	rel, err := filepath.Rel(dir, path)
	require.NoError(t, err)
	assert.False(t, filepath.IsLocal(rel), "%s is in %s", path, dir)
}
