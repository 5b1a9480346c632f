package workflows

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// patient is a session whose turn waits for a decision during the first waits attempts.
type patient struct {
	waits int
	seen  []HandOverInput
}

func (p *patient) HandOver(_ context.Context, in HandOverInput) (DeliverResult, error) {
	p.seen = append(p.seen, in)
	res := DeliverResult{Session: in.Session, MessageID: in.Message.ID, Turn: "t", State: turn.StateWaiting}
	if len(p.seen) > p.waits {
		res.State, res.FinishReason = turn.StateCompleted, turn.FinishAnswered
	}
	return res, nil
}

// deliver runs a delivery with skipped time.
func deliver(t *testing.T, p *patient, in DeliverInput) (env *testsuite.TestWorkflowEnvironment, took time.Duration) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env = suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: DeliverWorkflow})
	env.RegisterActivity(p)
	if !in.Since.IsZero() {
		env.SetContinuedExecutionRunID("the run before")
	}
	began := env.Now()
	env.ExecuteWorkflow(DeliverWorkflow, in)
	require.True(t, env.IsWorkflowCompleted())
	return env, env.Now().Sub(began)
}

func TestADeliveryLooksOftenAtFirstAndThenSeldom(t *testing.T) {
	p := &patient{waits: 40}
	env, took := deliver(t, p, DeliverInput{Session: "s", Message: Message{Text: "Hello."}})
	require.NoError(t, env.GetWorkflowError())
	var res DeliverResult
	require.NoError(t, env.GetWorkflowResult(&res))
	assert.Equal(t, turn.StateCompleted, res.State)
	require.Len(t, p.seen, 41)
	assert.Equal(t, handOverWait, p.seen[0].MaxWait, "most turns are over before an activity is")
	assert.Zero(t, p.seen[1].MaxWait, "a turn that waits for days holds no slot of a worker")
	assert.Greater(t, took, time.Hour, "40 looks last long")
	assert.True(t, p.seen[0].Message.Background, "it leaves a share of the fleet limits to others")
	for _, in := range p.seen {
		assert.Equal(t, p.seen[0].Message, in.Message)
	}
}

func TestALongDeliveryGoesOnInANewRunWithTheSameMessage(t *testing.T) {
	p := &patient{waits: 1 << 20}
	env, took := deliver(t, p, DeliverInput{Session: "s", Message: Message{Text: "Hello."}})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	require.Len(t, p.seen, checksPerRun)
	assert.Less(t, took, checksPerRun*maxSleep+time.Minute)
	var in DeliverInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	assert.Equal(t, p.seen[0].Message, in.Message, "under an ID of the new run it would be said twice")
	assert.NotEmpty(t, in.Message.ID)
	assert.WithinDuration(t, env.Now().Add(-took), in.Since, time.Second)

	again := &patient{}
	env, _ = deliver(t, again, in)
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, in.Message, again.seen[0].Message)
	assert.Zero(t, again.seen[0].MaxWait)
}

// refusing is a session whose first turns, or all of whose turns, do not begin.
type refusing struct{ sent, begins int }

func (r *refusing) HandOver(_ context.Context, in HandOverInput) (DeliverResult, error) {
	r.sent++
	if r.sent > r.begins {
		return DeliverResult{Session: in.Session, Turn: "t", State: turn.StateCompleted}, nil
	}
	return DeliverResult{Session: in.Session, Undelivered: true}, nil
}

func TestADeliveryThatNoTurnTakesIsGivenUp(t *testing.T) {
	for sent, says := range map[int]string{maxUndelivered - 1: "", maxUndelivered: "sent to session s 5 times",
		1 << 20: "sent to session s 5 times"} {
		r := &refusing{begins: sent}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: DeliverWorkflow})
		env.RegisterActivity(r)
		env.ExecuteWorkflow(DeliverWorkflow, DeliverInput{Session: "s", Message: Message{Text: "Hello."}})
		require.True(t, env.IsWorkflowCompleted())
		assert.Equal(t, maxUndelivered, r.sent)
		if says == "" {
			assert.NoError(t, env.GetWorkflowError())
			continue
		}
		assert.ErrorContains(t, env.GetWorkflowError(), says)
	}
}

func TestDeliveriesThatAreRefused(t *testing.T) {
	limits := &LimitsRequest{TurnTimeout: new(string)}
	for says, in := range map[string]DeliverInput{
		"session ID is empty": {Message: Message{Text: "x"}},
		"the maximum is 200":  {Session: strings.Repeat("s", 201), Message: Message{Text: "x"}},
		"message is empty":    {Session: "s", Message: Message{Text: " "}},
		"turn_timeout":        {Session: "s", Message: Message{Text: "x"}, Limits: limits},
		"update the worker":   {Version: WireVersion + 1, Session: "s", Message: Message{Text: "x"}},
	} {
		p := &patient{}
		env, _ := deliver(t, p, in)
		assert.ErrorContains(t, env.GetWorkflowError(), says)
		assert.Empty(t, p.seen, "nothing is sent")
	}
}

func TestADeliverysMessageIDFitsEverySession(t *testing.T) {
	assert.Equal(t, "deliver-x/run", DeliveryID("deliver-x", "run"))
	assert.Equal(t, "run", DeliveryID(strings.Repeat("x", maxMessageID), "run"))
}
