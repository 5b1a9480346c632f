package journal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// TestChainIsStable pins the bytes from which old journals and exports were hashed. A change here makes them
// unreadable.
func TestChainIsStable(t *testing.T) {
	first := turn.Message{ID: "m1", Role: turn.RoleUser, Text: "a <b> & \"c\" é \u2028", TurnID: "t1"}
	json := `{"id":"m1","role":"user","text":"a <b> & \"c\" é \u2028","turn_id":"t1"}`
	assert.Equal(t, json, string(journal.Canonical(first)))
	head := journal.Next(turn.Head{}, first)
	assert.Equal(t, turn.Head{Seq: 1, Hash: sha("\n" + json)}, head)

	second := turn.Message{
		Role: turn.RoleAssistant, Text: "look", TurnID: "t1", Step: 1,
		ToolCalls: []turn.ToolCall{{ID: "1.0", WireID: "w", Tool: "local/x", Arguments: "{}"}},
	}
	json = `{"role":"assistant","text":"look","tool_calls":[{"id":"1.0","wire_id":"w","tool":"local/x","arguments":"{}"}],"turn_id":"t1","step":1}`
	assert.Equal(t, turn.Head{Seq: 2, Hash: sha(head.Hash + "\n" + json)}, journal.Next(head, second))

	third := turn.Message{Role: turn.RoleTool, Text: "ok", CallID: "1.0", Outcome: turn.OutcomeOK, TurnID: "t1", Step: 1}
	assert.Equal(t, `{"role":"tool","text":"ok","call_id":"1.0","outcome":"ok","turn_id":"t1","step":1}`,
		string(journal.Canonical(third)))
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
