package workflows_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestLimitsOfAContinuedRunAreChecked checks the limits of a continued run, because any client's workflow can continue
// as a Turn. Timeouts that add up to a negative one would fail each workflow task of the run, and nothing could stop
// the run.
func TestLimitsOfAContinuedRunAreChecked(t *testing.T) {
	for name, forge := range map[string]func(*turn.Limits){
		"huge": func(l *turn.Limits) { l.ToolTimeout = math.MaxInt64 },
		"none": func(l *turn.Limits) { l.MaxParallelCalls = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetTestTimeout(time.Minute)
			env.SetContinuedExecutionRunID("the run before")
			p := turn.Progress{Config: turn.Config{Limits: turn.DefaultLimits()}}
			forge(&p.Config.Limits)
			env.ExecuteWorkflow(workflows.Turn, workflows.Input{Turn: "t", Continued: &p})
			require.True(t, env.IsWorkflowCompleted())
			var app *temporal.ApplicationError
			require.ErrorAs(t, env.GetWorkflowError(), &app)
			assert.Equal(t, string(turn.CodeInputInvalid), app.Type())
		})
	}
}
