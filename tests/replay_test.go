package tests

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
)

// record writes the histories of the tests that keep one and have none yet:
//
//	go test ./tests -record
//
// A kept history is never overwritten: it is what some worker out there is in the middle of.
var record = flag.Bool("record", false, "record the kept histories that are missing")

const histories = "testdata/histories"

// TestKeptHistoriesReplay replays every shape of history that was ever shipped on the code as it is, with the panic
// policy of production.
func TestKeptHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			h, err := client.HistoryFromJSON(bytes.NewReader(b), client.HistoryJSONOptions{})
			require.NoError(t, err)
			assert.NoError(t, replay(h.Events))
		})
	}
}

// TestAnIncompatibleChangeIsNoticed shows that a replay can fail: a history whose first activity is another one.
func TestAnIncompatibleChangeIsNoticed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(histories, "v1-answer.json"))
	require.NoError(t, err)
	changed := regexp.MustCompile(`"name": +"Infer"`).ReplaceAll(b, []byte(`"name": "Ponder"`))
	require.NotEqual(t, b, changed)
	h, err := client.HistoryFromJSON(bytes.NewReader(changed), client.HistoryJSONOptions{})
	require.NoError(t, err)
	assert.ErrorContains(t, replay(h.Events), "nondeterministic")
}

// keep records a run's history as a kept one, where -record asks for it and there is none of this name.
func (r *rig) keep(name, session, run string) {
	r.t.Helper()
	file := filepath.Join(histories, name+".json")
	if _, err := os.Stat(file); !*record || err == nil {
		return
	}
	b, err := protojson.MarshalOptions{Indent: "  "}.Marshal(&historypb.History{Events: r.events(session, run)})
	require.NoError(r.t, err)
	require.NoError(r.t, os.MkdirAll(histories, 0o755))
	require.NoError(r.t, os.WriteFile(file, b, 0o600))
}
