package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAResultThatArrivesWithTheEndOfItsTimeIsReported covers a detached call whose answer and whose deadline are both
// there: the answer takes precedence.
func TestAResultThatArrivesWithTheEndOfItsTimeIsReported(t *testing.T) {
	h := babbling(t, &babbler{at: -1})
	req := working(t, h, "work", `{}`)
	s := inUse(h)
	for range 32 { // select chooses at random
		late := make(chan turn.ToolResult, 1)
		req.Late = func(r turn.ToolResult) { late <- r }
		a := &attempt{connector: s.owner, session: s, req: req, name: "work"}
		a.begin(t.Context(), turn.Descriptor{})
		_, a.state = newCallState(a.requestCtx)
		a.detachFor = -1
		a.replies <- reply{result: &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}}
		s.conn.Stay()
		a.awaitDetached()
		require.Len(t, late, 1)
		require.Equal(t, "done", (<-late).Text)
	}
	require.NoError(t, h.Close())
}
