package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// BenchmarkHop measures the operations of one hop with a 5 KB result, at both settings of synchronous, in microseconds
// per operation.
func BenchmarkHop(b *testing.B) {
	for _, synchronous := range []string{"full", "normal"} {
		b.Run(synchronous, func(b *testing.B) {
			store, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "j.db"),
				sqlite.Options{Synchronous: synchronous})
			require.NoError(b, err)
			defer store.Close()
			benchHops(b, store)
		})
	}
}

type stopwatch struct {
	b     *testing.B
	spent map[string]time.Duration
	count map[string]int
}

func (s *stopwatch) time(name string, fn func() error) {
	begin := time.Now()
	err := fn()
	s.spent[name] += time.Since(begin)
	s.count[name]++
	require.NoError(s.b, err)
}

func benchHops(b *testing.B, store *journal.DB) {
	ctx, at := context.Background(), time.Now()
	w := &stopwatch{b: b, spent: map[string]time.Duration{}, count: map[string]int{}}
	var head turn.Head
	w.time("begin", func() error {
		out, err := store.Begin(ctx, turn.BeginInput{Session: "s", Turn: "t",
			Message: turn.UserMessage{ID: "m", Text: "go"}, At: at})
		head = out.Head
		return err
	})
	var results []turn.CallOutcome
	for step := 1; b.Loop(); step++ {
		key := journal.StepKey{Turn: "t", Step: step}
		call := turn.ToolCall{ID: fmt.Sprintf("%d.0", step), Tool: "local/read_file", Arguments: `{"path":"a"}`}
		w.time("start_inference", func() error {
			_, err := store.StartInference(ctx, journal.StartInference{Session: "s", Key: key, Expect: head, Outcomes: results,
				At: at})
			return err
		})
		for range 5 {
			w.time("append_chunks", func() error {
				return store.AppendChunks(ctx, key, 1, []turn.Chunk{{Kind: turn.ChunkTextDelta, Text: "some more text ", At: at}})
			})
		}
		w.time("settle_inference", func() error {
			out, err := store.SettleInference(ctx, journal.SettleInference{
				Session: "s", Key: key, Attempt: 1, At: at, Message: turn.Message{Text: "look", ToolCalls: []turn.ToolCall{call}},
				Answer: turn.Completion{Text: "look",
					Raw: []byte(`[` + strings.Repeat(`{"a":"delta"},`, 100) + fmt.Sprint(step) + `]`)},
			})
			head = out.Head
			return err
		})
		w.time("claim_call", func() error {
			_, err := store.ClaimCall(ctx, journal.ClaimInput{Turn: "t", Step: step, Call: call, Attempt: 1, At: at})
			return err
		})
		w.time("settle_call", func() error {
			text := strings.Repeat("x", 5000) + fmt.Sprint(step)
			_, err := store.SettleCall(ctx, journal.SettleInput{Turn: "t", CallID: call.ID, Attempt: 1, At: at,
				Result: turn.ToolResult{Outcome: turn.OutcomeOK, Text: text}})
			return err
		})
		results = []turn.CallOutcome{{CallID: call.ID}}
	}
	for name, spent := range w.spent {
		b.ReportMetric(float64(spent.Microseconds())/float64(w.count[name]), name+"_µs")
	}
}
