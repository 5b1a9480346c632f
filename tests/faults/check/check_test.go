package check_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/faults/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// effect are the ledgers of a real run in which the worker was killed after a call had its effect:
//
//	go run ./tests/faults -point '^effect$' -seed 107 -keep
func effect(t *testing.T) check.Ledgers {
	t.Helper()
	dir, err := zip.OpenReader("testdata/effect.zip")
	require.NoError(t, err)
	defer dir.Close()
	l, err := check.Read(dir)
	require.NoError(t, err)
	return l
}

func TestARunThatKeptItsPromisesIsNotBlamed(t *testing.T) {
	l := effect(t)
	require.NotEmpty(t, l.Requests)
	require.NotEmpty(t, l.Effects)
	require.NotEmpty(t, l.Client)
	require.NotEmpty(t, l.Stream)
	require.Len(t, l.Histories, 6)
	require.Len(t, l.Sessions, 2)
	require.NotEmpty(t, l.Sinks)
	assert.Empty(t, check.Check(l))
}

// The end of a ledger whose writer was killed in the middle of a line is no ledger's fault.
func TestALineThatWasCutOffIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tool.jsonl", `{"event":"begun","text":"a"}`+"\n"+`{"event":"eff`)
	l := read(t, dir)
	assert.Equal(t, []check.Effect{{Event: "begun", Text: "a"}}, l.Effects)
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func read(t *testing.T, dir string) check.Ledgers {
	t.Helper()
	l, err := check.Read(os.DirFS(dir))
	require.NoError(t, err)
	return l
}
