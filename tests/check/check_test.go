package check_test

import (
	"archive/zip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// effect returns the ledgers of a real run in which the worker was killed after a call had its effect:
//
//	go run -C tests/faults . -point '^effect$' -seed 107 -keep
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
	require.Len(t, l.Histories, 7)
	require.Len(t, l.Sessions, 3)
	require.NotEmpty(t, l.Sinks)
	assert.Empty(t, check.Check(l))
}

func TestATurnThatTheScheduleMakesFailIsNotBlamed(t *testing.T) {
	l := effect(t)
	l.Run.Failing = fails(&l)
	assert.NotContains(t, check.Invariants(check.Check(l)), check.I1)
}

// A prompt that would be too long begins later, with the turn's own request in front of it.
func TestAPromptMayBeCutAtItsBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		window, kept, leave int
		request, blamed     bool
	}{
		"with its request":         {window: 3, kept: 2, leave: 2, request: true},
		"without it":               {window: 3, kept: 2, leave: 2, blamed: true},
		"shorter than it is to be": {window: 3, kept: 12, leave: 2, request: true, blamed: true},
		"although it is not long":  {window: 1000, kept: 2, leave: 2, request: true, blamed: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := effect(t)
			l.Run.Window, l.Run.Kept = c.window, c.kept
			for i, r := range l.Requests {
				l.Requests[i].Body = cut(t, r, c.leave, c.request)
			}
			assert.Equal(t, c.blamed, slices.Contains(check.Invariants(check.Check(l)), check.I3))
		})
	}
}

// cut keeps the system prompt and the last messages of a request, but no result without its call.
func cut(t *testing.T, r check.Request, leave int, request bool) json.RawMessage {
	t.Helper()
	var body map[string]any
	require.NoError(t, json.Unmarshal(r.Body, &body))
	all := body["messages"].([]any)
	role := func(i int) any { return all[i].(map[string]any)["role"] }
	from := max(1, len(all)-leave)
	for from < len(all)-1 && role(from) == "tool" {
		from++
	}
	own := slices.IndexFunc(all, func(m any) bool { return m.(map[string]any)["content"] == r.Asked })
	if role(from) == "tool" {
		from = own // the window would be empty
	}
	kept := append([]any{}, all[0])
	if request && own < from {
		kept = append(kept, all[own])
	}
	body["messages"] = append(kept, all[from:]...)
	b, err := json.Marshal(body)
	require.NoError(t, err)
	return b
}

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
