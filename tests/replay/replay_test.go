package replay

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/workflows"
)

// dir is Dir relative to this package.
var dir = filepath.Join("..", "..", Dir)

// kept reads one kept history.
func kept(t *testing.T, name string) []*historypb.HistoryEvent {
	t.Helper()
	events, err := Read(filepath.Join(dir, name+".json"))
	require.NoError(t, err)
	return events
}

// TestKeptHistoriesReplay replays every shape of history that was ever shipped on the current code, with the panic
// policy of production.
func TestKeptHistoriesReplay(t *testing.T) {
	var report strings.Builder
	table := tabwriter.NewWriter(&report, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "history\tevents\tKB\treplay\tresult")
	recorded, err := readSums(dir)
	require.NoError(t, err)
	for _, file := range slices.Sorted(maps.Keys(recorded)) {
		name := strings.TrimSuffix(file, ".json")
		t.Run(name, func(t *testing.T) {
			info, err := os.Stat(filepath.Join(dir, file))
			require.NoError(t, err)
			events := kept(t, name)
			began := time.Now()
			err = Run(events)
			result := Ending(events)
			if !assert.NoError(t, err, "turns of this shape would be stuck: bring the old behaviour back, behind "+
				"workflow.GetVersion where there is a new one") {
				result = "does NOT replay"
			}
			fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", name, len(events), info.Size()>>10,
				time.Since(began).Round(100*time.Microsecond), result)
			assert.Contains(t, []string{workflows.TurnWorkflow, workflows.DeliverWorkflow, workflows.CompactWorkflow},
				begun(events).GetWorkflowType().GetName(), "it is a history of another workflow")
		})
	}
	require.NoError(t, table.Flush())
	t.Logf("%d kept histories on the code as it is:\n%s", len(recorded), report.String())
}

// TestKeptHistoriesAreWhatWasRecorded fails if a kept history was edited, deleted or added by hand.
func TestKeptHistoriesAreWhatWasRecorded(t *testing.T) {
	wrong, err := Changed(dir)
	require.NoError(t, err)
	assert.Empty(t, wrong)
	recorded, err := readSums(dir)
	require.NoError(t, err)
	for file := range recorded {
		known, err := described(dir, strings.TrimSuffix(file, ".json"))
		require.NoError(t, err)
		assert.True(t, known, "%s has not one row in %s", file, readme)
	}
	b, err := os.ReadFile(filepath.Join(dir, readme))
	require.NoError(t, err)
	assert.Equal(t, len(recorded), strings.Count(string(b), "\n| `v"), "none is ever taken away")
}

// TestTheReplayerIsLikeTheWorker checks what Run assumes about the engine: it registers the workflow under its name,
// and sets no converter, panic policy or propagator that the replayer would also need.
func TestTheReplayerIsLikeTheWorker(t *testing.T) {
	worker, err := os.ReadFile("../../engine/worker.go")
	require.NoError(t, err)
	assert.Contains(t, string(worker),
		"RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})")
	assert.Contains(t, string(worker),
		"RegisterWorkflowWithOptions(workflows.Deliver, workflow.RegisterOptions{Name: workflows.DeliverWorkflow})")
	assert.Contains(t, string(worker),
		"RegisterWorkflowWithOptions(workflows.Compact, workflow.RegisterOptions{Name: workflows.CompactWorkflow})")
	for _, room := range []string{"engine", "client", "internal/temporalconn", "internal/workerprocess", "worker", "starter"} {
		files, err := filepath.Glob(filepath.Join("..", "..", room, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			// The converters with keys read plain histories, such as the kept ones, as the default converters do.
			for _, option := range []string{"WorkflowPanicPolicy", "ContextPropagators:", "ExternalStorage:",
				"DisableRegistrationAliasing"} {
				assert.NotContains(t, string(b), option, "%s: the replayer in run.go must be given the same", file)
			}
		}
	}
}
