package mcp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/workflows/turn"
)

func TestACallThatIsNotSentSaysWhyAndWhenToTryAgain(t *testing.T) {
	h := newHTTPHost(t, mcp.Options{BackoffMin: time.Minute},
		mcp.Server{ID: "web", URL: "http://" + loopback.Nobody})
	for range 2 { // the first call fails to connect, the second finds the breaker open
		_, err := h.Call(t.Context(), turn.ToolRequest{Tool: "mcp/web/echo", Arguments: []byte(`{"text":"x"}`),
			Timeout: 10 * time.Second})
		var e *turn.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, turn.CodeToolNotSent, e.Code)
		assert.Equal(t, `mcp/web/echo was not called: MCP server "web" is unavailable: connection refused`, e.Message)
		assert.InDelta(t, time.Minute, e.RetryAfter, float64(time.Minute/2))
	}
}

// TestAMissingDirectoryIsNotAMissingCommand checks that the model is told which of the two is missing.
func TestAMissingDirectoryIsNotAMissingCommand(t *testing.T) {
	s := stdioServer("srv")
	s.Dir = "/no/such/folder"
	_, err := newHost(t, mcp.Options{}, s).Call(t.Context(), turn.ToolRequest{Tool: "mcp/srv/echo",
		Arguments: []byte(`{"text":"x"}`), Timeout: 10 * time.Second})
	assert.ErrorContains(t, err, `"srv" is unavailable: its working directory cannot be used`)
}

// TestTheReasonHoldsNoWordOfTheServer checks that the model reads why a call was not sent, without any text of the
// server.
func TestTheReasonHoldsNoWordOfTheServer(t *testing.T) {
	s := stdioServer("srv", "-mode", "exit") // it prints a license error to stderr
	h := newHost(t, mcp.Options{}, s)
	_, err := h.Call(t.Context(), turn.ToolRequest{Tool: "mcp/srv/echo", Arguments: []byte(`{"text":"x"}`),
		Timeout: 10 * time.Second})
	var e *turn.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, `mcp/srv/echo was not called: MCP server "srv" is unavailable: its process ended with exit status 3`,
		e.Message)
	assert.ErrorContains(t, e.Cause, "no licence found", "people may know")
}
