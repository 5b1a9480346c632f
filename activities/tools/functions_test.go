package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
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

func newRegistry(t *testing.T) *tools.Registry {
	t.Helper()
	reg := tools.New(tools.Options{}, nil)
	t.Cleanup(func() { assert.NoError(t, reg.Close()) })
	return reg
}

// request returns a call of the function with its current hash.
func request(t *testing.T, reg *tools.Registry, id, arguments string) turn.ToolRequest {
	t.Helper()
	for _, d := range reg.Catalogues(t.Context())[0].Tools {
		if d.ID == id {
			return turn.ToolRequest{Tool: id, Hash: d.Hash, Arguments: json.RawMessage(arguments), Timeout: 20 * time.Second,
				Session: "s", Turn: "t", Step: 3, CallID: "3.0", Attempt: 1}
		}
	}
	t.Fatalf("no tool %s", id)
	return turn.ToolRequest{}
}

func call(t *testing.T, reg *tools.Registry, id, arguments string) turn.ToolResult {
	t.Helper()
	r, err := reg.Call(t.Context(), request(t, reg, id, arguments))
	require.NoError(t, err)
	return r
}

func TestATextOfANamedTypeIsShownAsItIs(t *testing.T) {
	type text string
	reg := newRegistry(t)
	require.NoError(t, tools.Add(reg, "say", "", func(context.Context, struct{}) (text, error) { return "a \"b\"", nil }))
	assert.Equal(t, `a "b"`, call(t, reg, "local/say", `{}`).Text)
}

func TestATypedToolHasASchemaAndAResult(t *testing.T) {
	reg := newRegistry(t)
	require.NoError(t, tools.Add(reg, "sum", "Add numbers.", sum, tools.LocalActivity(), tools.Risk(turn.RiskLow),
		tools.Timeout(time.Second)))
	c := reg.Catalogues(t.Context())[0]
	require.Len(t, c.Tools, 1)
	d := c.Tools[0]
	assert.Equal(t, "local/sum", d.ID)
	assert.Equal(t, "local_sum", d.Wire)
	assert.Equal(t, turn.ActivityLocal, d.Activity)
	assert.Equal(t, turn.RiskLow, d.Risk)
	assert.True(t, d.Repeatable)
	assert.Equal(t, time.Second, d.Timeout)
	assert.Contains(t, string(d.Schema), "first number")
	assert.Contains(t, string(d.Details), `"sum":{"type":"integer"}`, "the schema of its result")
	require.NoError(t, reg.Check(d, []byte(`{"a":1}`)))
	require.Error(t, reg.Check(d, []byte(`{"b":1}`)))
	require.Error(t, reg.Check(d, []byte(`{"a":1,"c":1}`)))

	r := call(t, reg, "local/sum", `{"a":1,"b":2}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.JSONEq(t, `{"sum":3}`, r.Text)

	assert.Equal(t, turn.OutcomeDenied, call(t, reg, "local/sum", `{"a":1} and more`).Outcome)
	drifted := request(t, reg, "local/sum", `{"a":1}`)
	drifted.Hash = "another"
	_, err := reg.Call(t.Context(), drifted)
	assert.Equal(t, turn.CodeToolDrift, turn.CodeOf(err))
	for _, absent := range []string{"local/nope", "mcp/srv/work"} {
		_, err := reg.Call(t.Context(), turn.ToolRequest{Tool: absent})
		assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err), "another worker may have it")
		assert.ErrorIs(t, err, turn.ErrToolAbsent)
	}
}

func TestOptionsAndWordsDecideEffectsAndRisk(t *testing.T) {
	reg := newRegistry(t)
	work := func(context.Context, struct{}) (string, error) { return "", nil }
	require.NoError(t, tools.Add(reg, "delete", "", work))
	require.NoError(t, tools.Add(reg, "reads", "", work, tools.ReadOnly()))
	c := reg.Catalogues(t.Context())[0]
	require.Len(t, c.Tools, 2)
	assert.Equal(t, turn.Effects{}, c.Tools[0].Effects)
	assert.Equal(t, turn.RiskHigh, c.Tools[0].Risk)
	assert.Equal(t, turn.Effects{ReadOnly: true}, c.Tools[1].Effects)
	assert.Equal(t, turn.RiskMedium, c.Tools[1].Risk)
	assert.True(t, c.AllowToolChanges)
}

func TestALocalToolKnowsItsCallAndItsDeadline(t *testing.T) {
	type key struct{}
	reg := newRegistry(t)
	seen := make(chan turn.ToolRequest, 1)
	require.NoError(t, tools.Add(reg, "who", "", func(ctx context.Context, _ struct{}) (string, error) {
		req, ok := tools.CallInfo(ctx)
		assert.True(t, ok)
		assert.Equal(t, "value", ctx.Value(key{}))
		_, ok = ctx.Deadline()
		assert.True(t, ok)
		seen <- req
		return "", nil
	}))
	req := request(t, reg, "local/who", `{}`)
	_, err := reg.Call(context.WithValue(t.Context(), key{}, "value"), req)
	require.NoError(t, err)
	assert.Equal(t, req, <-seen)
}

func TestBadLocalToolsAreRefused(t *testing.T) {
	reg := newRegistry(t)
	require.NoError(t, tools.Add(reg, "sum", "", sum))
	assert.ErrorContains(t, tools.Add(reg, "sum", "", sum), "one of that name already")
	assert.ErrorContains(t, tools.Add(reg, "a/b", "", sum), "a name is")
	assert.ErrorContains(t, tools.Add(reg, "risky", "", sum, tools.Risk("enormous")), "not known")
	type bad struct{ F func() }
	assert.Error(t, tools.Add(reg, "bad", "", func(context.Context, bad) (string, error) { return "", nil }))
	assert.Error(t, tools.Add(reg, "number", "", func(context.Context, int) (string, error) { return "", nil }))
	assert.NoError(t, tools.Add(reg, "bad", "", sum), "a refused tool keeps its name")
}

func TestErrorsAndPanicsOfLocalToolsAreResults(t *testing.T) {
	reg := newRegistry(t)
	require.NoError(t, tools.Add(reg, "fail", "",
		func(context.Context, struct{}) (string, error) { return "", errors.New("out of paper") }))
	require.NoError(t, tools.Add(reg, "panic", "",
		func(context.Context, struct{}) (string, error) { panic("oh\x00no") }))
	r := call(t, reg, "local/fail", `{}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Equal(t, "out of paper", r.Text)
	r = call(t, reg, "local/panic", `{}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Contains(t, r.Text, "has a bug and panicked: ohno")
}

func TestAnErrorOfALocalToolHasAKind(t *testing.T) {
	reg := newRegistry(t)
	require.NoError(t, tools.Add(reg, "book", "", func(context.Context, struct{}) (string, error) {
		return "", fmt.Errorf("booking: %w", &tools.Error{Kind: "not_found", Message: "there is no table \"9\"",
			Cause: errors.New("SELECT … FROM tables: no rows")})
	}))
	r := call(t, reg, "local/book", `{}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.JSONEq(t, `{"error":{"kind":"not_found","message":"there is no table \"9\""}}`, r.Text)
}

func TestALocalToolsDeadlineAndCancellation(t *testing.T) {
	reg := newRegistry(t)
	began := make(chan struct{}, 2)
	stopped := make(chan error, 2)
	require.NoError(t, tools.Add(reg, "wait", "", func(ctx context.Context, _ struct{}) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		stopped <- ctx.Err()
		return "", ctx.Err()
	}))
	req := request(t, reg, "local/wait", `{}`)
	req.Timeout, req.Repeatable = 50*time.Millisecond, true
	r, err := reg.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	<-began
	assert.ErrorIs(t, <-stopped, context.DeadlineExceeded)

	req.Timeout, req.Repeatable = time.Minute, false
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	r, err = reg.Call(ctx, req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.ErrorIs(t, <-stopped, context.Canceled)
}

func TestFiftyMegabytesAreCut(t *testing.T) {
	reg := newRegistry(t)
	big := strings.Repeat("0123456789abcde\n", 50<<16)
	require.NoError(t, tools.Add(reg, "big", "",
		func(context.Context, struct{}) (string, error) { return "first\n" + big + "last", nil }))
	req := request(t, reg, "local/big", `{}`)
	req.Timeout = 2 * time.Minute // the race detector makes this slow
	r, err := reg.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.EqualValues(t, 50<<20+10, r.SizeBytes)
	assert.LessOrEqual(t, len(r.Text), 64<<10)
	assert.True(t, strings.HasPrefix(r.Text, "first\n"))
	assert.Contains(t, r.Text, "left out here")
	assert.Len(t, r.Full, 16<<20)
}

func TestAToolAddedLaterIsReported(t *testing.T) {
	reg := newRegistry(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan int)
	go reg.Watch(ctx, func(c turn.Catalogue) { seen <- len(c.Tools) })
	assert.Equal(t, 0, <-seen)
	require.NoError(t, tools.Add(reg, "sum", "", sum))
	assert.Equal(t, 1, <-seen)
}

func TestAReplacedFunctionAnswersTurnsThatHaveAnEarlierOne(t *testing.T) {
	reg := newRegistry(t)
	add := func(version string) error {
		return tools.Add(reg, "say", "Version "+version, func(context.Context, struct{}) (string, error) { return version, nil },
			tools.Replaceable())
	}
	require.NoError(t, add("1"))
	first := request(t, reg, "local/say", "{}")
	require.NoError(t, add("2"))
	require.NoError(t, add("3"))
	assert.NotEqual(t, first.Hash, request(t, reg, "local/say", "{}").Hash)
	answer := func() string {
		r, err := reg.Call(t.Context(), first)
		require.NoError(t, err)
		return r.Text
	}
	assert.Equal(t, "3", answer())
	reg.Remove("say")
	assert.Empty(t, reg.Catalogues(t.Context())[0].Tools)
	assert.Equal(t, "3", answer())
	require.NoError(t, add("4"))
	assert.Len(t, reg.Catalogues(t.Context())[0].Tools, 1)

	unknown := first
	unknown.Hash = "another"
	_, err := reg.Call(t.Context(), unknown)
	assert.Equal(t, turn.CodeToolDrift, turn.CodeOf(err))

	require.NoError(t, tools.Add(reg, "sum", "", sum))
	require.Error(t, tools.Add(reg, "sum", "", sum, tools.Replaceable()), "a function that is not replaceable stays")
	reg.Remove("sum")
	assert.Len(t, reg.Catalogues(t.Context())[0].Tools, 2)
}
