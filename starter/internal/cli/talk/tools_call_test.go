package talk

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporal "go.temporal.io/sdk/client"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// startedUnheard is a Temporal that starts a turn and does not answer before the caller gives up.
type startedUnheard struct {
	temporal.Client
	leave      func() // makes the caller give up
	terminated []string
}

func (s *startedUnheard) ExecuteWorkflow(ctx context.Context, _ temporal.StartWorkflowOptions, _ any,
	_ ...any) (temporal.WorkflowRun, error) {
	s.leave()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *startedUnheard) DescribeWorkflowExecution(ctx context.Context, _, _ string) (
	*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Execution: &commonpb.WorkflowExecution{RunId: "run"},
	}}, ctx.Err()
}

func (s *startedUnheard) TerminateWorkflow(ctx context.Context, _, run, _ string, _ ...any) error {
	s.terminated = append(s.terminated, run)
	return ctx.Err()
}

func TestACallThatIsLeftWhileItIsSentEndsItsTurn(t *testing.T) {
	check := func(t *testing.T, leave func(cancel func())) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &startedUnheard{leave: func() { leave(cancel) }}
		a := &app.App{Streams: app.Streams{Out: io.Discard, Err: io.Discard}}
		in := client.SendInput{Session: "call-1", Message: turn.UserMessage{Text: "call local_list_files {}"}}
		require.Error(t, callTool(ctx, a.NewTurnClient(s, nil, config.Config{}, nil), in, followOptions{}))
		assert.Equal(t, []string{"run"}, s.terminated)
	}
	t.Run("Ctrl-C", func(t *testing.T) { check(t, func(cancel func()) { cancel() }) })
	t.Run("SIGHUP", func(t *testing.T) {
		if signal.Ignored(syscall.SIGHUP) {
			t.Skip("this process ignores SIGHUP, and so does the command")
		}
		check(t, func(func()) { assert.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP)) })
	})
}

func TestACallWhoseWorkerHasEndedDoesNotSayThatItsTurnWaits(t *testing.T) {
	failed := make(chan error, 1)
	broken := errors.New("broken")
	failed <- broken
	f := &follower{TurnClient: &app.TurnClient{Failed: failed}, options: followOptions{stopOnLeave: true}}
	f.asker.f = f
	done, err := f.next(t.Context(), nil)
	assert.True(t, done)
	require.ErrorIs(t, err, broken)
	assert.NotContains(t, err.Error(), "attach")
}
