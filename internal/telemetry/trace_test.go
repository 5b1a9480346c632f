package telemetry

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

func TestATraceIsWrittenForEveryTenant(t *testing.T) {
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	for _, tenant := range []string{"", "acme"} {
		id := "turn of " + tenant
		_, err = j.Begin(t.Context(), turn.BeginInput{Tenant: tenant, Session: "s", Turn: id, WorkflowID: id,
			RunID: id, Config: []byte("{}"), Message: turn.UserMessage{ID: "m", Text: "hello from " + tenant}, At: time.Now()})
		require.NoError(t, err)
		all, err := (&Telemetry{ledger: j, contents: true}).readTurn(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, id, all.turn.ID)
		require.Len(t, all.question, 1)
		assert.Contains(t, all.question[0].Text, "hello from "+tenant)
	}
}

func TestSensitiveArgumentsAreNotExported(t *testing.T) {
	tel := &Telemetry{contents: true, options: Options{Redact: func(s string) string { return s }}}
	cfg := turn.Config{Tools: []turn.Tool{{ID: "mcp/bank/pay", Sensitive: []string{"pin"}}}}
	call := turn.ToolCall{ID: "1.0", Tool: "mcp/bank/pay", Arguments: `{"to":"ann","pin":"canary","password":"canary"}`}
	assert.Equal(t, `{"to":"ann","pin":"[blanked]","password":"[blanked]"}`, tel.arguments(cfg, call))
	message := tel.messages(cfg, "assistant", []turn.Message{{ToolCalls: []turn.ToolCall{call},
		Text: `{"action":"tool","arguments":{"password":"canary"}}`}})
	assert.Contains(t, message, "ann")
	assert.NotContains(t, message, "canary")
}
