package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/everturn/everturn/workflows/turn"
)

// clientPort is a port whose model calls a client tool. decide is called while a decision is recorded.
type clientPort struct {
	*elicitingPort
	decide func()
}

func (p *clientPort) Begin(context.Context, BeginInput) (BeginResult, error) {
	return BeginResult{Config: turn.Config{Limits: turn.DefaultLimits(),
		Tools: []turn.Tool{{ID: "mcp/a/x", Activity: turn.ActivityClient}}}}, nil
}

func (p *clientPort) Decide(ctx context.Context, in []turn.Request) (bool, error) {
	p.decide()
	return p.elicitingPort.Decide(ctx, in)
}

// TestAResultThatCountsIsRecorded stops a turn while it records that a client's result has arrived, which the client was
// told: an attempt still gets the result.
func TestAResultThatCountsIsRecorded(t *testing.T) {
	var got []turn.ElicitationResponse
	p := &clientPort{elicitingPort: &elicitingPort{calls: []string{"1.0"}, silent: true}}
	p.decide = func() { p.env.CancelWorkflow() }
	p.call = func(in CallInput) (CallResult, error) {
		if in.Attempt == 1 {
			return suspended(in), nil
		}
		got = in.Responses
		return CallResult{Outcome: turn.OutcomeOK}, nil
	}
	var refused error
	response, err := turn.ClientResult{Text: "rain"}.Response()
	require.NoError(t, err)
	p.whenAsked = func() {
		p.env.RegisterDelayedCallback(func() {
			p.env.UpdateWorkflow(DecideUpdate, "u", &testsuite.TestUpdateCallback{OnReject: func(err error) { refused = err },
				OnAccept: func() {}, OnComplete: func(any, error) {}}, DecideInput{Request: "r1.0", Response: response})
		}, time.Second)
	}
	p.runs(t, p)
	require.NoError(t, refused)
	require.Len(t, got, 1)
	assert.JSONEq(t, `{"text":"rain"}`, string(got[0].Content))
	assert.Equal(t, turn.StateCancelled, p.finished.Result.State)
}
