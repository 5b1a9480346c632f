package check

import (
	"log/slog"
	"maps"
	"slices"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// replay checks I6: every history replays on the code as it is, with production's panic policy.
func (c *checker) replay() {
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for _, name := range slices.Sorted(maps.Keys(c.Histories)) {
		replayer := worker.NewWorkflowReplayer()
		replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
		if err := replayer.ReplayWorkflowHistory(quiet, c.Histories[name]); err != nil {
			c.breaks(I6, "%s does not replay: %v", name, err)
		}
	}
}
