package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// busySession accepts a message when it has been sent twice, and refuses one for good.
type busySession struct {
	sent []string
	seen map[string]int
}

func (s *busySession) HandOver(_ context.Context, in HandOverInput) (DeliverResult, error) {
	id := in.Message.ID
	s.sent = append(s.sent, id)
	res := DeliverResult{Session: in.Session, MessageID: id}
	if id == "bad" {
		return res, temporal.NewNonRetryableApplicationError("no", string(turn.CodeConfigInvalid), nil)
	}
	if s.seen[id]++; s.seen[id] == 2 {
		res.Accepted = map[string]string{id: "the turn of " + id}
	}
	return res, nil
}

// TestLeftMessagesAreSentInTheirOrder checks that a message is not sent before the session has accepted the one before
// it, and that one that is refused for good does not hold up the others.
func TestLeftMessagesAreSentInTheirOrder(t *testing.T) {
	s := &busySession{seen: map[string]int{}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: DeliverWorkflow})
	env.RegisterActivity(s)
	var left []Message
	for _, id := range []string{"a", "bad", "b"} {
		left = append(left, Message{ID: id, Text: "x", Late: true})
	}
	env.ExecuteWorkflow(DeliverWorkflow, DeliverInput{Session: "s", Left: left})
	assert.Equal(t, []string{"a", "a", "bad", "b", "b"}, s.sent)
	var res DeliverResult
	require.NoError(t, env.GetWorkflowResult(&res))
	assert.Equal(t, map[string]string{"a": "the turn of a", "b": "the turn of b"}, res.Accepted)
}

// TestAMessageThatATurnLeftIsAcceptedAtTheLastCheck checks that a delivery that is over needs no other run.
func TestAMessageThatATurnLeftIsAcceptedAtTheLastCheck(t *testing.T) {
	p := &lateSession{until: checksPerRun}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: DeliverWorkflow})
	env.RegisterActivity(p)
	env.ExecuteWorkflow(DeliverWorkflow, DeliverInput{Session: "s", Left: []Message{{ID: "m", Text: "Hello.", Late: true}}})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var res DeliverResult
	require.NoError(t, env.GetWorkflowResult(&res))
	assert.Equal(t, map[string]string{"m": "t"}, res.Accepted)
	assert.Equal(t, checksPerRun, p.checks)
}

// lateSession is a session that accepts a message at the check until.
type lateSession struct{ checks, until int }

func (s *lateSession) HandOver(_ context.Context, in HandOverInput) (DeliverResult, error) {
	res := DeliverResult{Session: in.Session, MessageID: in.Message.ID}
	if s.checks++; s.checks == s.until {
		res.Accepted = map[string]string{in.Message.ID: "t"}
	}
	return res, nil
}
