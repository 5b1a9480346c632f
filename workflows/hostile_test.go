package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// port provides a turn's activities, with a model that asks the user once and then answers.
type port struct {
	Activities // the activities that these tests do not use
	steps      int
	decided    [][]turn.Request
}

func (p *port) Begin(_ context.Context, in BeginInput) (BeginResult, error) {
	limits, err := in.Limits.Apply(turn.DefaultLimits())
	if err != nil {
		return BeginResult{}, temporal.NewNonRetryableApplicationError(err.Error(), string(turn.CodeInputInvalid), nil)
	}
	return BeginResult{Config: turn.Config{Agent: in.Agent, Limits: limits}, Head: turn.Head{Seq: 1}}, nil
}

func (p *port) Infer(context.Context, InferInput) (InferResult, error) {
	p.steps++
	out := InferResult{Proposal: turn.Proposal{Kind: turn.ProposeFinal, Text: "done"}}
	if p.steps == 1 {
		out.Proposal = turn.Proposal{Kind: turn.ProposeAsk, Question: "Which?"}
	}
	return out, nil
}

func (p *port) Ask(context.Context, []turn.Request) ([]turn.Decision, error) { return nil, nil }

func (p *port) Decide(_ context.Context, in []turn.Request) (bool, error) {
	p.decided = append(p.decided, in)
	return false, nil
}

func (p *port) Finish(_ context.Context, in FinishInput) (FinishResult, error) {
	return FinishResult{State: in.Result.State}, nil
}

func (p *port) SettleSubagent(context.Context, CallInput) (CallResult, error) {
	return CallResult{Message: &Message{Text: "an answer"}}, nil
}

func (p *port) HandOver(_ context.Context, in HandOverInput) (DeliverResult, error) {
	return DeliverResult{Session: in.Session, Turn: "t", State: turn.StateCompleted,
		Accepted: map[string]string{in.Message.ID: "t"}}, nil
}

// hostileRun runs a workflow with an input that any client of Temporal may send, stops it after a day, and returns how
// it ended. The test fails if the server would refuse a command, because it would then retry the workflow task without
// end.
func hostileRun(t *testing.T, name string, input []byte, during func(*testsuite.TestWorkflowEnvironment)) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // CI runs all fuzz targets in parallel
	env.RegisterWorkflowWithOptions(Turn, workflow.RegisterOptions{Name: TurnWorkflow})
	env.RegisterWorkflowWithOptions(Deliver, workflow.RegisterOptions{Name: DeliverWorkflow})
	p := &port{}
	for _, act := range []any{p.SettleSubagent, p.Begin, p.Infer, p.Ask, p.Decide, p.Finish, p.HandOver} {
		env.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: activityName(act)})
	}
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		assert.Positive(t, info.StartToCloseTimeout, info.ActivityType.Name)
		var in json.RawMessage
		assert.NoError(t, args.Get(&in))
		assert.Less(t, len(in), 2<<20, info.ActivityType.Name)
	})
	if during != nil {
		env.RegisterDelayedCallback(func() { during(env) }, time.Second)
	}
	env.RegisterDelayedCallback(env.CancelWorkflow, 24*time.Hour)
	env.ExecuteWorkflow(name, json.RawMessage(input))
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// requireTyped accepts the valid ends of a run: a result, an error with a code, a stop, or continue-as-new with a valid
// input.
func requireTyped(t *testing.T, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	var next *workflow.ContinueAsNewError
	switch {
	case err == nil, temporal.IsCanceledError(err):
	case errors.As(err, &next):
		require.Less(t, len(next.Input.Payloads[0].Data), 2<<20)
	case errors.As(err, &app):
		require.True(t, turn.Code(app.Type()).Known(), "%v", err)
		require.LessOrEqual(t, len(app.Message()), 1000)
	default:
		require.Fail(t, "no typed end", "%v", err)
	}
}

// hostile returns inputs that every workflow must refuse, by a key that the refusal names.
func hostile() map[string]string {
	long := func(n int) string { return strings.Repeat("x", n) }
	inputs := map[string]string{
		"turn_timeout":     `"limits":{"turn_timeout":"2562047h47m16.854775807s"}`,
		"tool_timeout":     `"limits":{"tool_timeout":"2562047h"}`,
		"must be positive": `"limits":{"turn_timeout":"-1ns"}`,
		"a duration":       `"limits":{"turn_timeout":"` + strings.Repeat("1h", 500_000) + `x"}`,
		"max_steps":        `"limits":{"max_steps":9223372036854775807}`,
		"max_tool_calls":   `"limits":{"max_tool_calls":1000000001}`,
		"max_tokens":       `"limits":{"max_tokens":9223372036854775807}`,
		"max_cost_usd":     `"limits":{"max_cost_usd":1e308}`,
		"cannot be read":   `"limits":{"max_cost_usd":1e309}`,
		"agent's name":     `"agent":"` + long(201) + `"`,
		"version":          `"v":9223372036854775807`,
		"tenant's name":    `"tenant":"` + long(1<<20) + `"`,
		"session":          `"session":"` + long(1<<20) + `"`,
		"message's ID":     `"message":{"id":"` + long(1<<20) + `","text":"hi"}`,
		"as JSON":          `"message":{"text":"` + strings.Repeat("<", 400_000) + `"}`,
	}
	return inputs
}

func TestHostileInputsAreRefusedWithACode(t *testing.T) {
	for says, fields := range hostile() {
		for name, rest := range map[string]string{TurnWorkflow: `{"message":{"text":"hi"},`,
			DeliverWorkflow: `{"session":"s","message":{"text":"hi"},`} {
			requireRefused(t, hostileRun(t, name, []byte(rest+fields+"}"), nil), says)
		}
	}
	for _, input := range []string{
		`{"message":{"text":"hi"},"turn":"another"}`,
		`{"continued":{"config":{"limits":{"turn_timeout":-1}},"counters":{"step":9223372036854775807}}}`,
	} {
		requireRefused(t, hostileRun(t, TurnWorkflow, []byte(input), nil), "for the workflow itself")
	}
	requireRefused(t, hostileRun(t, DeliverWorkflow,
		[]byte(`{"session":"s","message":{"text":"hi"},"since":"2020-01-01T00:00:00Z"}`), nil),
		"since is for the workflow itself")
	requireRefused(t, hostileRun(t, DeliverWorkflow, []byte(`{"session":"s","left":[{"text":"hi"}]}`), nil),
		"left is for the workflow itself")
	requireRefused(t, hostileRun(t, DeliverWorkflow, []byte(`{"session":5}`), nil), "cannot be read")
	const call = `{"session":"s","call":{"session":"s","turn":"t","call":{"id":"1.0"},"tool":{"id":"agent/a"},"message":{"text":"x"}`
	for _, forged := range []string{`,"tenant":"b"}}`, `,"session":"other"}}`, `,"call":{"id":"x"}}}`, `,"turn":"a/b"}}`,
		`,"tool":{"id":"local/a"}}}`, `,"message":{}}}`, `,"limits":{"turn_timeout":"never"}}}`,
		`,"tool":{"id":"agent/` + strings.Repeat("a", 1000) + `"}}}`, `,"call":{"id":"1.0","arguments":"` +
			strings.Repeat("a", 20<<10) + `"}}}`} {
		requireTyped(t, hostileRun(t, DeliverWorkflow, []byte(call+forged), nil))
	}
}

func requireRefused(t *testing.T, err error, says string) {
	t.Helper()
	requireTyped(t, err)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app, says)
	require.Equal(t, string(turn.CodeInputInvalid), app.Type(), says)
	require.Contains(t, app.Message(), says)
}

// TestTheLargestLimitsLeaveATurnThatCanBeStopped checks that a turn with the largest accepted limits can still be
// stopped.
func TestTheLargestLimitsLeaveATurnThatCanBeStopped(t *testing.T) {
	input := fmt.Sprintf(
		`{"message":{"text":"hi"},"limits":{"turn_timeout":"%s","tool_timeout":"%[1]s","max_steps":%d,"max_tokens":%[2]d,`+
			`"max_cost_usd":%[3]d}}`,
		turn.MaxDuration, turn.MaxCount, turn.MaxCostUSD)
	err := hostileRun(t, TurnWorkflow, []byte(input), nil)
	require.True(t, temporal.IsCanceledError(err), "%v", err)
}

// TestHostileUpdatesAreRejectedWithACode sends updates to a turn that waits for an answer. Their rejection leaves it
// waiting.
func TestHostileUpdatesAreRejectedWithACode(t *testing.T) {
	long := strings.Repeat("x", 1900<<10)
	for i, u := range []struct {
		name, json string
		code       turn.Code
	}{
		{DecideUpdate, `{"request":"e1.0.1","response":{"key":"` + long + `","action":"decline"}}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"e1.0.1","response":{"action":"decline"}}`, turn.CodeNotWaiting},
		{DecideUpdate, `{"request":"e` + long + `","response":{"action":"decline"}}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q1","text":"x","by":"` + long + `"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q1","text":"` + long + `"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q1","blob":"` + long + `"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q1","text":"x","turn":"` + long + `"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q1","text":"x","v":99}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"q9","text":"x"}`, turn.CodeNotWaiting},
		{ElicitUpdate, `{"call":"1.0","attempt":1,"within":1000,"elicitation":{"key":"1","message":"?"}}`,
			turn.CodeNotWaiting},
		{ElicitUpdate, `{"call":"` + long + `","attempt":-1}`, turn.CodeNotWaiting},
		{DecideUpdate, `{"request":"e1.0.1","response":{"action":"accept","content":{"a":"` + long + `"}}}`,
			turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"1.0","allow":true,"arguments_hash":"` + long + `"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"1.0","reason":"` + long + `","arguments_hash":"x"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"e1.0.1","allow":true,"arguments_hash":"x"}`, turn.CodeNotWaiting},
		{DecideUpdate, `{"request":"1.0","v":9223372036854775807}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"1.0","session":"another"}`, turn.CodeInputInvalid},
		{DecideUpdate, `{"request":"1.0","changed_plan":"` + long + `"}`, turn.CodeNotWaiting},
		{SendUpdate, `{"text":"` + long + `"}`, turn.CodeInputInvalid},
		{SendUpdate, `{"text":"` + strings.Repeat(`<`, 200_000) + `"}`, turn.CodeInputInvalid},
		{SendUpdate, `{"id":"` + long + `","text":"x"}`, turn.CodeInputInvalid},
	} {
		err := hostileRun(t, TurnWorkflow, []byte(`{"message":{"text":"hi"}}`), func(env *testsuite.TestWorkflowEnvironment) {
			env.UpdateWorkflow(u.name, fmt.Sprint("update-", i), &testsuite.TestUpdateCallback{
				OnReject: func(err error) {
					var app *temporal.ApplicationError
					if assert.ErrorAs(t, err, &app, "%d", i) {
						assert.Equal(t, string(u.code), app.Type(), "%d: %v", i, app.Message())
						assert.Less(t, len(app.Message()), 1000)
					}
				},
				OnAccept:   func() { assert.Fail(t, "accepted", "%d: %s", i, turn.Truncate(u.json, 100)) },
				OnComplete: func(any, error) {},
			}, json.RawMessage(u.json))
		})
		require.True(t, temporal.IsCanceledError(err), "%d: the turn still waits, until it is stopped: %v", i, err)
	}
}

// TestManyToolsWithLongNamesFitIntoASearchAttribute uses tool names of up to 200 bytes, which a server chooses freely.
func TestManyToolsWithLongNamesFitIntoASearchAttribute(t *testing.T) {
	r := &run{progress: turn.Progress{Config: turn.Config{}}}
	for i := range 2 * maxToolsShown {
		r.noteTool(fmt.Sprintf("mcp/%s/%s%02d", strings.Repeat("s", 32), strings.Repeat("t", 198), i))
	}
	b, err := json.Marshal(r.progress.Tools)
	require.NoError(t, err)
	require.NotEmpty(t, r.progress.Tools)
	require.Less(t, len(b), 2<<10)
}

// FuzzHostile checks that a run ends with a result or a code, whatever a client starts and sends, and that none of its
// tasks fails.
func FuzzHostile(f *testing.F) {
	for _, fields := range hostile() {
		if len(fields) < 1000 {
			f.Add([]byte(`{"session":"s","message":{"text":"hi"},`+fields+"}"), []byte(`{"request":"q1","text":"x"}`))
		}
	}
	f.Add([]byte(`{"message":{"text":"hi"}}`),
		[]byte(`{"request":"e1.0.1","response":{"key":"k","action":"accept","content":{"a":1}},"arguments_hash":"x"}`))
	f.Add([]byte(`{"continued":{"counters":{"step":-9223372036854775808}},"queue":[{"text":"x","after":true}]}`),
		[]byte(`{"id":"turn:x","text":"x"}`))
	f.Fuzz(func(t *testing.T, input, update []byte) {
		if !json.Valid(input) || !json.Valid(update) {
			return
		}
		for _, name := range []string{TurnWorkflow, DeliverWorkflow} {
			requireTyped(t, hostileRun(t, name, input, func(env *testsuite.TestWorkflowEnvironment) {
				for i, to := range []string{SendUpdate, DecideUpdate} {
					if name == TurnWorkflow {
						env.UpdateWorkflow(to, fmt.Sprint(i), &testsuite.TestUpdateCallback{OnReject: func(error) {}, OnAccept: func() {},
							OnComplete: func(any, error) {}}, json.RawMessage(update))
					}
				}
			}))
		}
	})
}
