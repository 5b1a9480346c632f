package replay

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/workflows"
)

var update = flag.Bool("update", false, "write the README beside the kept histories anew")

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
// policy of production, and checks that each has the shape that its name says.
func TestKeptHistoriesReplay(t *testing.T) {
	var report strings.Builder
	table := tabwriter.NewWriter(&report, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "history\tevents\tKB\treplay\tresult")
	for _, shape := range Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			path := filepath.Join(dir, shape.Name+".json")
			info, err := os.Stat(path)
			require.NoError(t, err, "record it with `go test ./tests -run '^%s$' -record`", shape.Test)
			events := kept(t, shape.Name)
			began := time.Now()
			err = Run(events)
			result := Ending(events)
			if !assert.NoError(t, err, "turns of this shape would be stuck: bring the old behaviour back, behind "+
				"workflow.GetVersion where there is a new one") {
				result = "does NOT replay"
			}
			fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", shape.Name, len(events), info.Size()>>10,
				time.Since(began).Round(100*time.Microsecond), result)
			assert.NotEmpty(t, shape.Outline, "its outline is %q: put it into shapes.go", Outline(events))
			assert.NoError(t, shape.Check(events))
			assert.Contains(t, []string{workflows.TurnWorkflow, workflows.DeliverWorkflow},
				begun(events).GetWorkflowType().GetName(), "it is a history of another workflow")
		})
	}
	require.NoError(t, table.Flush())
	t.Logf("%d kept histories on the code as it is:\n%s", len(Shapes), report.String())
}

// TestKeptHistoriesAreWhatWasRecorded fails if a kept history was edited, deleted or added by hand.
func TestKeptHistoriesAreWhatWasRecorded(t *testing.T) {
	wrong, err := Changed(dir)
	require.NoError(t, err)
	assert.Empty(t, wrong)
	recorded, err := readSums(dir)
	require.NoError(t, err)
	for file := range recorded {
		_, known := Find(strings.TrimSuffix(file, ".json"))
		assert.True(t, known, "%s has no line in shapes.go: none is ever taken away", file)
	}
	seen := map[string]bool{}
	for _, s := range Shapes {
		assert.False(t, seen[s.Name], "%s is there twice", s.Name)
		seen[s.Name] = true
	}
}

// TestTheReadme checks that testdata/histories/README.md matches the table of shapes.
func TestTheReadme(t *testing.T) {
	path := filepath.Join(dir, "README.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(Readme()), 0o644))
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, Readme(), string(b), "bring it up to date: go test ./tests/replay -run TestTheReadme -update")
}

// TestEveryShapeHasItsTest checks that the tests that the table names exist.
func TestEveryShapeHasItsTest(t *testing.T) {
	files, err := filepath.Glob("../*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var sources strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		sources.Write(b)
	}
	for _, s := range Shapes {
		assert.True(t, s.Test == "" || strings.Contains(sources.String(), "func "+s.Test+"("),
			"%s says that this test records it", s.Name)
		assert.NotEmpty(t, s.What)
	}
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
	for _, room := range []string{"engine", "client", "internal/temporalconn", "worker", "starter"} {
		files, err := filepath.Glob(filepath.Join("..", "..", room, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, option := range []string{"WorkflowPanicPolicy", "DataConverter:", "FailureConverter:", "ContextPropagators:",
				"ExternalStorage:", "DisableRegistrationAliasing"} {
				assert.NotContains(t, string(b), option, "%s: the replayer in run.go must be given the same", file)
			}
		}
	}
}

func TestOutlinesMatchWithGaps(t *testing.T) {
	for pattern, c := range map[string]struct {
		text string
		fits bool
	}{
		"a b c":   {"a b c", true},
		"a b":     {"a b c", false},
		"a…c":     {"a b c", true},
		"a…":      {"a b c", true},
		"a…b…d…c": {"a b c", false},
		"…a…":     {"b", false},
		"aa…aa":   {"aaa", false},
		"…":       {"", true},
	} {
		assert.Equal(t, c.fits, fits(pattern, c.text), "%q and %q", pattern, c.text)
	}
}
