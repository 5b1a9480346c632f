package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

const slowly = "trigger-long-running-operation"

// The operation takes four times the time that a call may take, and reports its progress more often than that.
func TestProgressKeepsACallAlive(t *testing.T) {
	t.Parallel()
	server := stdioServer(t, "everything", everything, "stdio")
	server.Tools = map[string]config.MCPTool{slowly: {Timeout: 500 * time.Millisecond, TotalTimeout: within}}
	r := newRig(t, server)
	results := r.turn(ask(slowly, `{"duration":2,"steps":20}`))
	assert.Contains(t, results[0], "completed")
}

// Without progress the model is told that the outcome is unknown; the call continues, and the next turn reports how it
// ended.
func TestALateResultReachesTheModel(t *testing.T) {
	t.Parallel()
	server := stdioServer(t, "everything", everything, "stdio")
	server.Tools = map[string]config.MCPTool{slowly: {Timeout: 300 * time.Millisecond, BackgroundTimeout: within}}
	r := newRig(t, server)
	r.session = "late-" + r.cfg.Temporal.TaskQueue
	results := r.turn(call{tool: slowly, args: `{"duration":1,"steps":1}`, ends: turn.OutcomeUnknown})
	assert.Contains(t, results[0], "Outcome unknown")
	turns, err := r.store.Turns(t.Context(), r.session)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		calls, err := r.store.Calls(t.Context(), turns[0].ID)
		require.NoError(t, err)
		return calls[0].LateCount == 1
	}, within, 10*time.Millisecond, "the late result was not kept")

	r.turn(ask("echo", `{"message":"next"}`))
	requests := r.model.Requests()
	var notices []string
	for _, m := range requests[len(requests)-1].Chat.Messages {
		if m.Role == "user" && strings.Contains(m.Content, "Long running operation completed") {
			notices = append(notices, m.Content)
		}
	}
	assert.Len(t, notices, 1, "it is told, once")
}
