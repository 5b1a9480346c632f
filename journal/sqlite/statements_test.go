package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// counted is a database that counts the statements of its transactions.
type counted struct {
	*database
	statements int
}

func (c *counted) Write(ctx context.Context, fn func(journal.Conn) error) error {
	return c.database.Write(ctx, func(conn journal.Conn) error { return fn(countedConn{conn, c}) })
}

func (c *counted) Read(ctx context.Context, once bool, fn func(journal.Conn) error) error {
	return c.database.Read(ctx, once, func(conn journal.Conn) error { return fn(countedConn{conn, c}) })
}

type countedConn struct {
	journal.Conn
	to *counted
}

func (c countedConn) Query(query string, args ...any) (journal.Rows, error) {
	c.to.statements++
	return c.Conn.Query(query, args...)
}

func (c countedConn) QueryRow(query string, args ...any) journal.Row {
	c.to.statements++
	return c.Conn.QueryRow(query, args...)
}

func (c countedConn) Exec(query string, args ...any) error {
	c.to.statements++
	return c.Conn.Exec(query, args...)
}

// TestStatementsOfATurn bounds the statements of each transaction of a turn with five calls in a new session: on
// Postgres, most of them are a round trip.
func TestStatementsOfATurn(t *testing.T) {
	file, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{Synchronous: "normal"})
	require.NoError(t, err)
	c := &counted{database: file}
	db := journal.New(c)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	took := map[string]int{}
	counting := func(name string, do func() error) {
		c.statements = 0
		require.NoError(t, do(), name)
		took[name] = max(took[name], c.statements)
	}
	at := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	var head turn.Head
	counting("begin", func() error {
		out, err := db.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: "t", WorkflowID: "w", RunID: "r", At: at,
			Message: turn.UserMessage{ID: "m", Text: "Do it."}, Config: json.RawMessage(`{}`)})
		head = out.Head
		return err
	})
	var results []turn.CallOutcome
	for step := 1; step <= 6; step++ {
		key, inf := journal.StepKey{Turn: "t", Step: step}, journal.Inference{}
		counting("start an inference", func() error {
			inf, err = db.StartInference(t.Context(), journal.StartInference{Session: "s", Key: key, Expect: head, At: at,
				Outcomes: results, Model: "m"})
			return err
		})
		call := turn.ToolCall{ID: fmt.Sprintf("%d.0", step), Tool: "local/read_file", Arguments: `{}`}
		counting("settle an inference", func() error {
			out, err := db.SettleInference(t.Context(), journal.SettleInference{Session: "s", Key: key, Attempt: 1,
				Base: inf.Base, At: at, Model: "m", Message: turn.Message{ToolCalls: []turn.ToolCall{call}},
				Answer: turn.Completion{Usage: turn.Usage{InputTokens: 10}, Raw: json.RawMessage(`[]`)}})
			head = out.Head
			return err
		})
		if step == 6 {
			break
		}
		counting("claim a call", func() error {
			out, err := db.ClaimCall(t.Context(), journal.CallRecord{Turn: "t", Step: step, Call: call, Attempt: 1, Worker: "w",
				ClaimedAt: at}, false)
			assert.Equal(t, journal.ClaimGranted, out.Claim)
			return err
		})
		counting("settle a call", func() error {
			_, err := db.SettleCall(t.Context(), "t", call.ID, 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "x"}, at)
			return err
		})
		results = []turn.CallOutcome{{CallID: call.ID}}
	}
	most := map[string]int{"begin": 7, "start an inference": 4, "settle an inference": 3, "claim a call": 2, "settle a call": 2}
	for name, n := range took {
		assert.LessOrEqual(t, n, most[name], name)
	}
	assert.Len(t, took, len(most))
}
