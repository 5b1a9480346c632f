package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// BenchmarkHops measures hops of 32 parallel turns with fsync, which is the journal's share of a fleet's throughput.
func BenchmarkHops(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		s, err := sqlite.Open(b.Context(), b.TempDir()+"/j.db", sqlite.Options{})
		require.NoError(b, err)
		defer s.Close()
		benchHops(b, s)
	})
	b.Run("postgres", func(b *testing.B) {
		s, err := postgres.Open(b.Context(), pgtest.Start(b, "fsync=on").Journal(b), postgres.Options{})
		require.NoError(b, err)
		defer s.Close()
		benchHops(b, s)
	})
}

func benchHops(b *testing.B, s *journal.DB) {
	const turns = 32
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range turns {
		wg.Go(func() { assert.NoError(b, hops(b.Context(), s, fmt.Sprint("t", i), b.N/turns+1)) })
	}
	wg.Wait()
}

// hops runs a turn through n hops, each with a call and five appends of text.
func hops(ctx context.Context, s *journal.DB, name string, n int) error {
	at := time.Now()
	begun, err := s.Begin(ctx, turn.BeginInput{Session: name, Turn: name,
		Message: turn.UserMessage{ID: "m", Text: "go"}, At: at})
	head, results := begun.Head, []turn.CallOutcome(nil)
	for step := 1; step <= n && err == nil; step++ {
		head, results, err = hop(ctx, s, journal.StepKey{Turn: name, Step: step}, head, results)
	}
	return err
}

func hop(ctx context.Context, s *journal.DB, key journal.StepKey, head turn.Head,
	results []turn.CallOutcome) (turn.Head, []turn.CallOutcome, error) {
	at, call := time.Now(), turn.ToolCall{ID: fmt.Sprintf("%d.0", key.Step), Tool: "local/read_file",
		Arguments: `{"path":"a"}`}
	_, err := s.StartInference(ctx, journal.StartInference{Session: key.Turn, Key: key, Expect: head, Outcomes: results,
		At: at})
	for i := 0; i < 5 && err == nil; i++ {
		err = s.AppendChunks(ctx, key, 1, []turn.Chunk{{Kind: turn.ChunkTextDelta, Text: "some more text ", At: at}})
	}
	if err != nil {
		return head, nil, err
	}
	out, err := s.SettleInference(ctx, journal.SettleInference{Session: key.Turn, Key: key, Attempt: 1, At: at,
		Message: turn.Message{Text: "look", ToolCalls: []turn.ToolCall{call}}, Answer: turn.Completion{Text: "look"}})
	if err != nil {
		return head, nil, err
	}
	if _, err := s.ClaimCall(ctx, journal.ClaimInput{Turn: key.Turn, Step: key.Step, Call: call, Attempt: 1,
		At: at}); err != nil {
		return head, nil, err
	}
	_, err = s.SettleCall(ctx, journal.SettleInput{Turn: key.Turn, CallID: call.ID, Attempt: 1, At: at,
		Result: turn.ToolResult{Outcome: turn.OutcomeOK, Text: strings.Repeat("x", 5000) + key.Turn + call.ID}})
	return out.Head, []turn.CallOutcome{{CallID: call.ID}}, err
}
