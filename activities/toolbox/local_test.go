package toolbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

type sumIn struct {
	A int `json:"a" jsonschema:"first number"`
	B int `json:"b,omitempty" jsonschema:"second number"`
}

type sumOut struct {
	Sum int `json:"sum"`
}

func sum(_ context.Context, in sumIn) (sumOut, error) { return sumOut{in.A + in.B}, nil }

func TestATypedToolHasASchemaAndAResult(t *testing.T) {
	l := toolbox.NewLocal()
	require.NoError(t, toolbox.AddTool(l, "sum", "Add numbers.", sum, toolbox.LocalActivity(), toolbox.Risk(turn.RiskLow),
		toolbox.Timeout(time.Second)))
	h := newHost(t, toolbox.Options{}, l)
	c := catalogue(t, h, "local")
	require.Len(t, c.Tools, 1)
	d := c.Tools[0]
	assert.Equal(t, "local/sum", d.ID)
	assert.Equal(t, "local_sum", d.Wire)
	assert.Equal(t, turn.ActivityLocal, d.Activity)
	assert.Equal(t, turn.RiskLow, d.Risk)
	assert.True(t, d.Repeatable)
	assert.Equal(t, time.Second, d.Timeout)
	assert.Contains(t, string(d.Schema), "first number")
	require.NoError(t, h.Check(d, []byte(`{"a":1}`)))
	require.Error(t, h.Check(d, []byte(`{"b":1}`)))
	require.Error(t, h.Check(d, []byte(`{"a":1,"c":1}`)))

	r := call(t, h, "local/sum", `{"a":1,"b":2}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.JSONEq(t, `{"sum":3}`, r.Text)
}

func TestALocalToolKnowsItsCallAndItsDeadline(t *testing.T) {
	type key struct{}
	l := toolbox.NewLocal()
	seen := make(chan turn.ToolRequest, 1)
	require.NoError(t, toolbox.AddTool(l, "who", "", func(ctx context.Context, _ struct{}) (string, error) {
		req, ok := toolbox.CallInfo(ctx)
		assert.True(t, ok)
		assert.Equal(t, "value", ctx.Value(key{}))
		_, ok = ctx.Deadline()
		assert.True(t, ok)
		seen <- req
		return "", nil
	}))
	h := newHost(t, toolbox.Options{}, l)
	req := request(t, h, "local/who", `{}`)
	_, err := h.Call(context.WithValue(t.Context(), key{}, "value"), req)
	require.NoError(t, err)
	assert.Equal(t, req, receive(t, seen))
}

func TestBadLocalToolsAreRefused(t *testing.T) {
	l := toolbox.NewLocal()
	require.NoError(t, toolbox.AddTool(l, "sum", "", sum))
	assert.ErrorContains(t, toolbox.AddTool(l, "sum", "", sum), "one of that name already")
	assert.ErrorContains(t, toolbox.AddTool(l, "a/b", "", sum), "a name is")
	assert.ErrorContains(t, toolbox.AddTool(l, "risky", "", sum, toolbox.Risk("enormous")), "not known")
	type bad struct{ F func() }
	assert.Error(t, toolbox.AddTool(l, "bad", "", func(context.Context, bad) (string, error) { return "", nil }))
	assert.Error(t, toolbox.AddTool(l, "number", "", func(context.Context, int) (string, error) { return "", nil }))
	assert.NoError(t, toolbox.AddTool(l, "bad", "", sum), "a refused tool keeps its name")
}

func TestErrorsAndPanicsOfLocalToolsAreResults(t *testing.T) {
	l := toolbox.NewLocal()
	require.NoError(t, toolbox.AddTool(l, "fail", "",
		func(context.Context, struct{}) (string, error) { return "", errors.New("out of paper") }))
	require.NoError(t, toolbox.AddTool(l, "panic", "",
		func(context.Context, struct{}) (string, error) { panic("oh\x00no") }))
	h := newHost(t, toolbox.Options{}, l)
	r := call(t, h, "local/fail", `{}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Equal(t, "out of paper", r.Text)
	r = call(t, h, "local/panic", `{}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Contains(t, r.Text, "has a bug and panicked: ohno")
}

func TestALocalToolsDeadlineAndCancellation(t *testing.T) {
	l := toolbox.NewLocal()
	began := make(chan struct{}, 2)
	stopped := make(chan error, 2)
	require.NoError(t, toolbox.AddTool(l, "wait", "", func(ctx context.Context, _ struct{}) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		stopped <- ctx.Err()
		return "", ctx.Err()
	}))
	h := newHost(t, toolbox.Options{}, l)
	req := request(t, h, "local/wait", `{}`)
	req.Timeout, req.Repeatable = 50*time.Millisecond, true
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	receive(t, began)
	assert.ErrorIs(t, receive(t, stopped), context.DeadlineExceeded)

	req.Timeout, req.Repeatable = time.Minute, false
	ch, cancel := async(t, h, req)
	receive(t, began)
	cancel()
	assert.Equal(t, turn.OutcomeUnknown, receive(t, ch).result.Outcome)
	assert.ErrorIs(t, receive(t, stopped), context.Canceled)
}

func TestFiftyMegabytesAreCut(t *testing.T) {
	l := toolbox.NewLocal()
	big := strings.Repeat("0123456789abcde\n", 50<<16)
	require.NoError(t, toolbox.AddTool(l, "big", "",
		func(context.Context, struct{}) (string, error) { return "first\n" + big + "last", nil }))
	h := newHost(t, toolbox.Options{}, l)
	req := request(t, h, "local/big", `{}`)
	req.Timeout = 2 * time.Minute // the race detector makes this slow
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.EqualValues(t, 50<<20+10, r.SizeBytes)
	assert.LessOrEqual(t, len(r.Text), 64<<10)
	assert.True(t, strings.HasPrefix(r.Text, "first\n"))
	assert.Contains(t, r.Text, "left out here")
	assert.Len(t, r.Full, 16<<20)
}

func TestAToolAddedLaterIsSeen(t *testing.T) {
	l := toolbox.NewLocal()
	h := newHost(t, toolbox.Options{}, l)
	assert.Empty(t, catalogue(t, h, "local").Tools)
	require.NoError(t, toolbox.AddTool(l, "sum", "", sum))
	require.Eventually(t, func() bool { return len(catalogue(t, h, "local").Tools) == 1 }, 10*time.Second,
		5*time.Millisecond)
}
