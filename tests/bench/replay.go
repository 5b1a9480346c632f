package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/everturn/everturn/tests/bench/cookbook"
	"github.com/everturn/everturn/tests/bench/floor"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows"
)

// replay replays the arm's last turn in a separate process, which is the cost for a worker that has lost the workflow
// from its cache.
func (m *meter) replay(ctx context.Context, sp spec) (report.Replay, error) {
	var out report.Replay
	history := &historypb.History{}
	iter := m.harness.client.GetWorkflowHistory(ctx, m.session(m.next), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		e, err := iter.Next()
		if err != nil {
			return out, fmt.Errorf("reading the history of %s: %w", m, err)
		}
		history.Events = append(history.Events, e)
	}
	b, err := proto.Marshal(history)
	if err != nil {
		return out, err
	}
	file := m.harness.folder(m.name + ".history")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return out, err
	}
	text, err := exec.CommandContext(ctx, m.harness.self, "replay", string(m.kind), file).Output()
	if err != nil {
		return out, fmt.Errorf("replaying a turn of %s: %w", m, err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("reading what a replay of %s took: %w", m, err)
	}
	out.Arm, out.Events, out.HistoryBytes, out.Steps = m.String(), len(history.Events), len(b), sp.Hops+1
	out.PerStep = out.Milliseconds / float64(out.Steps)
	return out, nil
}

// replayRole replays the history in args[1] as a workflow of the kind in args[0]. It prints the peak memory after the
// first replay and the median time of five.
func replayRole(_ context.Context, args []string) error {
	b, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	history := &historypb.History{}
	if err := proto.Unmarshal(b, history); err != nil {
		return err
	}
	var out report.Replay
	var took []float64
	for i := range 5 {
		replayer := worker.NewWorkflowReplayer()
		switch kind(args[0]) {
		case everturn:
			replayer.RegisterWorkflowWithOptions(workflows.Turn, workflow.RegisterOptions{Name: workflows.TurnWorkflow})
		case cookbk:
			replayer.RegisterWorkflow(cookbook.Turn)
		default:
			replayer.RegisterWorkflow(floor.Turn)
		}
		began := time.Now()
		if err := replayer.ReplayWorkflowHistory(quiet, history); err != nil {
			return err
		}
		took = append(took, ms(time.Since(began)))
		if i == 0 {
			if out.PeakBytes, err = proc.PeakBytes(os.Getpid()); err != nil {
				return err
			}
		}
	}
	slices.Sort(took)
	out.Milliseconds = took[len(took)/2]
	return json.NewEncoder(os.Stdout).Encode(out)
}
