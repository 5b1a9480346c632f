package check

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// replay checks I6: every history replays on the code as it is, with production's panic policy.
func (c *checker) replay() {
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for _, name := range slices.Sorted(maps.Keys(c.Histories)) {
		err := replay(quiet, c.Histories[name])
		for range starvedRetries {
			if err == nil || !strings.Contains(err.Error(), starved) {
				break
			}
			err = replay(quiet, c.Histories[name])
		}
		if err != nil {
			c.breaks(I6, "%s does not replay: %v", name, err)
		}
	}
}

// starved is the SDK's code for a workflow that has not come to a wait within a second: on a machine that is busy with
// something else this says nothing of the workflow, unless it says so every time.
const (
	starved        = "TMPRL1101"
	starvedRetries = 3
)

func replay(quiet log.Logger, h *historypb.History) error {
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
	return replayer.ReplayWorkflowHistory(quiet, h)
}
