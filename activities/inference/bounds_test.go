package inference_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

const someText = `{"choices":[{"delta":{"content":"hi"}}]}`

// callParts returns an event with n parts, each of a different call.
func callParts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"index":%d}`, i)
	}
	return event(`{"choices":[{"delta":{"tool_calls":[` + b.String()[1:] + `]}}]}`)
}

func nested(depth int) string {
	return `{"choices":[{"delta":{"content":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}]}`
}

// TestAnAnswerOverABoundIsRefused checks that an answer over a bound fails with an error that names the bound, and is
// not retried: a retry would cost as much again. Each stream ends like a complete answer, so that only the bound can be
// the reason.
func TestAnAnswerOverABoundIsRefused(t *testing.T) {
	end := event(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	for name, c := range map[string]struct {
		reply fakellm.Reply
		bound string
	}{
		"calls in one event": {fakellm.Raw(callParts(1025), end), "1024 tool calls"},
		"values in one event": {fakellm.Raw(event(`{"x":[1`+strings.Repeat(",1", 1<<16)+`]}`), end),
			"65536 values in one event"},
		"nesting": {fakellm.Raw(event(nested(125)), end), "128 levels of nesting in one event"},
		"nesting, unstreamed": {fakellm.Raw(nested(125)+"\n", `{"choices":[{"finish_reason":"stop"}]}`),
			"128 levels of nesting in one event"},
		"a large event": {fakellm.Raw(event(`{"x":"`+strings.Repeat("x", 8<<20)+`"}`), end),
			"8388608 bytes in one event"},
		"a large one of lines": {fakellm.Raw(strings.Repeat(": "+strings.Repeat("x", 1<<20)+"\n", 2), `data: {"x":"`,
			strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9), end), "8388608 bytes in one event"},
		"large, unstreamed": {fakellm.Raw(`{"x":"`+strings.Repeat("x", 8<<20)+`"}`,
			`{"choices":[{"finish_reason":"stop"}]}`), "8388608 bytes in one event"},
		"pieces": {fakellm.Raw(event(someText), strings.Repeat(event(`{"choices":[`+strings.Repeat("{},", 30_000)+`{}]}`), 18),
			end),
			"524288 pieces"},
		"text": {fakellm.Raw(strings.Repeat(event(`{"choices":[{"delta":{"content":"`+strings.Repeat("x", 1<<19)+`"}}]}`), 3),
			end),
			"1048576 bytes of text"},
		"names": {fakellm.Raw(strings.Repeat(event(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"`+
			strings.Repeat("x", 1<<16)+`"}}]}}]}`), 17), end),
			"1048576 bytes of text"},
		"bytes": {fakellm.Raw(strings.Repeat(event(`{"x":"`+strings.Repeat("x", 4<<20)+`"}`), 8), end), "33554432 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := infer(t, c.reply)
			e := refusal(t, err, turn.CodeLLMRejected)
			assert.False(t, e.Code.Retryable())
			assert.Contains(t, e.Message, "more than "+c.bound)
		})
	}
}

// TestALongAnswerIsWithinTheBounds checks that a long answer in many small chunks stays within the bounds.
func TestALongAnswerIsWithinTheBounds(t *testing.T) {
	part := event(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"tok "}}]}}]}`)
	c, _, err := infer(t, fakellm.Raw(
		event(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"n"}}]}}]}`),
		strings.Repeat(part, 130_000), event(`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)))
	require.NoError(t, err)
	assert.Len(t, c.ToolCalls[0].Arguments, 4*130_000)
}

// TestACancelEndsTheReadingOfABomb checks that Infer returns soon after its context is cancelled, whatever it has read
// by then, and leaves nothing running.
func TestACancelEndsTheReadingOfABomb(t *testing.T) {
	many := callParts(1_900_000)
	for name, pieces := range map[string][]string{
		"one event of 1.9 million calls": {strings.Replace(many, `[`, `[{"delta":{"content":"hi"}},`, 1)},
		"nested content of 28 MB": {event(`{"choices":[{"delta":{"content":` + strings.Repeat(`[{"text":`, 4_000) + `"` +
			strings.Repeat("x", 28<<20) + `"` + strings.Repeat("}]", 4_000) + `}}]}`)},
		"events without end": {event(someText), strings.Repeat(callParts(1000), 4_000)},
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			s := fakellm.Start(t, fakellm.Raw(pieces...).StallAfter(len(pieces)))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, sink := chatOf(t, s.URL(), func(o *inference.Options) { o.MaxAnswerBytes = 1 << 30 }), newRecorder()
			done := make(chan error, 1)
			go func() {
				_, err := c.Infer(ctx, prompt("hello"), sink)
				done <- err
			}()
			deadline := time.After(time.Minute)
			select {
			case <-sink.heard:
				cancel()
			case <-deadline:
			case err := <-done: // already refused
				done <- err
			}
			select {
			case err := <-done:
				require.Error(t, err)
			case <-deadline:
				t.Fatal("the reading goes on")
			}
			require.NoError(t, s.Close())
			require.NoError(t, c.Close())
			goleak.VerifyNone(t, before)
		})
	}
}
