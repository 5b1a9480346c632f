package workflows

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// unavailable is a journal that fails some of its writes, with a model that answers.
type unavailable struct {
	port
	begin, finish bool // whether these activities fail
	finished      []FinishInput
	left          []DeliverInput // the deliveries that the turn has started
}

var errUnavailable = temporal.NewApplicationError("the journal is locked", string(turn.CodeJournalUnavailable))

func (u *unavailable) Begin(ctx context.Context, in BeginInput) (BeginResult, error) {
	if u.begin {
		return BeginResult{}, errUnavailable
	}
	return u.port.Begin(ctx, in)
}

func (u *unavailable) Infer(context.Context, InferInput) (InferResult, error) {
	return InferResult{Proposal: turn.Proposal{Kind: turn.ProposeFinal, Text: "done"}}, nil
}

func (u *unavailable) Finish(ctx context.Context, in FinishInput) (FinishResult, error) {
	if u.finish {
		return FinishResult{}, errUnavailable
	}
	u.finished = append(u.finished, in)
	return u.port.Finish(ctx, in)
}

// environment returns an environment whose turns use this port.
func (u *unavailable) environment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnWorkflow})
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, in DeliverInput) error {
		u.left = append(u.left, in)
		return nil
	}, workflow.RegisterOptions{Name: DeliverWorkflow})
	for _, act := range []any{u.Begin, u.Infer, u.Finish} {
		env.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: activityName(act)})
	}
	return env
}

// send sends a message to the turn after the given delay.
func send(t *testing.T, env *testsuite.TestWorkflowEnvironment, after time.Duration, m Message) {
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(SendUpdate, m.ID, &testsuite.TestUpdateCallback{
			OnReject:   func(err error) { assert.NoError(t, err) },
			OnAccept:   func() {},
			OnComplete: func(_ any, err error) { assert.NoError(t, err) },
		}, m)
	}, after)
}

// leftBy returns the result of a turn that was stopped, and the IDs of the messages that it has handed on.
func (u *unavailable) leftBy(t *testing.T, err error) (res Result, ids []string) {
	t.Helper()
	require.Len(t, u.left, 1, "one delivery")
	for _, m := range u.left[0].Left {
		assert.True(t, m.Late)
		ids = append(ids, m.ID)
	}
	res = detailsOf(err)
	assert.Equal(t, ids, res.Left)
	return res, ids
}

// TestAQueuedMessageOutlivesATurnThatCouldNotBegin checks that a message that was accepted for the next turn begins
// that turn, even if the current turn is stopped before the journal is available and so has no turn config.
func TestAQueuedMessageOutlivesATurnThatCouldNotBegin(t *testing.T) {
	u := &unavailable{begin: true}
	env := u.environment()
	send(t, env, time.Second, Message{ID: "joins", Text: "And this?"})
	send(t, env, time.Second, Message{ID: "queued", Text: "What next?", Queue: true})
	env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Second)
	env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{ID: "first", Text: "Hello."}})
	res, left := u.leftBy(t, env.GetWorkflowError())
	assert.Equal(t, turn.StateCancelled, res.State)
	assert.Equal(t, []string{"queued"}, left)
	require.Len(t, u.finished, 2)
	require.Len(t, u.finished[0].Messages, 1, "the stopped turn keeps only the message that joined it")
	assert.Equal(t, "joins", u.finished[0].Messages[0].ID)
	require.Len(t, u.finished[1].Left, 1)
	assert.Equal(t, "queued", u.finished[1].Left[0].ID)
}

// TestATurnThatCannotBeSettledHasFailed checks that a turn that cannot be settled fails, whatever its answer was, and
// that its search attributes say so.
func TestATurnThatCannotBeSettledHasFailed(t *testing.T) {
	u := &unavailable{finish: true}
	env := u.environment()
	state := ""
	env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		state, _ = args.Get(0).(temporal.SearchAttributes).GetKeyword(AttrState)
	}).Return(nil)
	env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{ID: "first", Text: "Hello."}})
	var app *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &app)
	assert.Equal(t, string(turn.CodeJournalUnavailable), app.Type())
	var res Result
	require.NoError(t, app.Details(&res))
	assert.Equal(t, turn.StateFailed, res.State)
	assert.Equal(t, "done", res.Answer)
	assert.Equal(t, string(turn.StateFailed), state)
}

// TestAStoppedTurnThatCannotBeSettledLosesNoMessage checks that accepted messages begin the session's next turn if the
// stopped turn cannot be settled with them.
func TestAStoppedTurnThatCannotBeSettledLosesNoMessage(t *testing.T) {
	u := &unavailable{begin: true, finish: true}
	env := u.environment()
	send(t, env, time.Second, Message{ID: "joins", Text: "And this?"})
	send(t, env, time.Second, Message{ID: "queued", Text: "What next?", Queue: true})
	env.RegisterDelayedCallback(env.CancelWorkflow, 2*time.Second)
	env.ExecuteWorkflow(TurnWorkflow, Input{Message: &Message{ID: "first", Text: "Hello."}})
	_, left := u.leftBy(t, env.GetWorkflowError())
	assert.Equal(t, []string{"joins", "queued"}, left)
}
