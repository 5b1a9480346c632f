package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// reports records a call's progress.
type reports struct {
	mu   sync.Mutex
	list []turn.ToolProgress
}

func (r *reports) add(p turn.ToolProgress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, p)
}

func (r *reports) all() []turn.ToolProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]turn.ToolProgress{}, r.list...)
}

func TestACallHasAStableNameAndANameOfEachAttempt(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	req := request(t, h, "mcp/act/whoami", `{}`)
	for attempt := 1; attempt <= 2; attempt++ {
		req.Attempt = attempt
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		var meta map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.Text), &meta))
		assert.Equal(t, "t:3.0", meta["everturn.dev/call"], "a server can tell a repetition from a new call")
		assert.Equal(t, map[int]string{1: "t:3.0#1", 2: "t:3.0#2"}[attempt], meta["progressToken"])
	}
}

func TestAServerGetsTheTraceOfItsCall(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	for ctx, want := range map[context.Context]any{
		ctx: "00-01000000000000000000000000000000-0200000000000000-01", t.Context(): nil,
	} {
		r, err := h.Call(ctx, request(t, h, "mcp/act/whoami", `{}`))
		require.NoError(t, err)
		var meta map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.Text), &meta))
		assert.Equal(t, want, meta["traceparent"])
	}
}

func TestProgressRenewsTheTimeUpToATotal(t *testing.T) {
	for name, server := range map[string]mcp.Server{"stdio": stdioActor(t, "act"), "http": httpActor(t, "act")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, mcp.Options{}, server)
			req := request(t, h, "mcp/act/steps",
				`{"N":25,"Each":100,"Message":"`+strings.Repeat("at work\\u001b[31m ", 40)+`"}`)
			// Twenty times a step's time, because a busy machine may stop the server for a second.
			req.Timeout, req.TotalTimeout = 2*time.Second, time.Minute
			var told reports
			req.Progress = told.add
			began := time.Now()
			r, err := h.Call(t.Context(), req)
			took := time.Since(began)
			require.NoError(t, err)
			assert.Equal(t, "took 25 steps", r.Text, "it worked longer than its timeout, and said so")
			list := told.all()
			require.NotEmpty(t, list)
			assert.LessOrEqual(t, len(list), int(took/(250*time.Millisecond))+1, "four times a second at most")
			for i, p := range list {
				assert.EqualValues(t, 25, p.Total)
				assert.LessOrEqual(t, len(p.Message), 200)
				assert.NotContains(t, p.Message, "\x1b")
				assert.True(t, strings.HasPrefix(p.Message, "at work"))
				assert.True(t, i == 0 || p.Done > list[i-1].Done)
			}

			req.TotalTimeout = 2500 * time.Millisecond
			req.Arguments = json.RawMessage(`{"N":100,"Each":100}`)
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "no progress helps beyond the total")

			req.TotalTimeout = 0
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "where there is no total, progress renews nothing")
		})
	}
}

func TestSilenceEndsACallThatMayTakeLong(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	req := request(t, h, "mcp/act/steps", `{"N":1,"Each":60000}`)
	req.Timeout, req.TotalTimeout = 300*time.Millisecond, time.Minute
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "did not answer in time")
}

func TestProgressOfOneCallIsNotTakenForAnothers(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	var mine, others reports
	req := request(t, h, "mcp/act/steps", `{"N":6,"Each":100,"Message":"mine"}`)
	req.Progress = mine.add
	other := req
	other.Turn, other.Arguments, other.Progress = "other", json.RawMessage(`{"N":6,"Each":100,"Message":"other"}`),
		others.add
	a, stopA := async(t, h, req)
	b, stopB := async(t, h, other)
	defer stopA()
	defer stopB()
	assert.Equal(t, turn.OutcomeOK, receive(t, a).result.Outcome)
	assert.Equal(t, turn.OutcomeOK, receive(t, b).result.Outcome)
	for want, told := range map[string]*reports{"mine": &mine, "other": &others} {
		list := told.all()
		require.NotEmpty(t, list)
		for _, p := range list {
			assert.Equal(t, want, p.Message, "the same call ID in two turns on one connection")
		}
	}
}
