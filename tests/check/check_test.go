package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/check"
)

// A ledger whose writer was killed in the middle of its last line is still valid.
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
