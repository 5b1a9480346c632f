package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerThatChangesWithoutEndIsAskedLessAndLess(t *testing.T) {
	var r restless
	now := time.Unix(1_000_000, 0)
	looks, end := 0, now.Add(time.Hour)
	for now.Before(end) {
		pause := r.next(now, looks%3 != 2) // it says that it changed where it did not, too
		require.GreaterOrEqual(t, pause, settle)
		require.LessOrEqual(t, pause, settleMost)
		now = now.Add(pause)
		looks++
	}
	assert.Less(t, looks, 120, "in an hour")
	now = now.Add(time.Hour)
	assert.Equal(t, settle, r.next(now, true), "what it did long ago is forgotten")
}

func TestTheToolsOfAServerAreBoundedTogether(t *testing.T) {
	d := describer{prefix: "mcp/x", server: Server{ID: "x"}}
	var tools []*mcp.Tool
	for i := range 100 {
		schema := fmt.Sprintf(`{"type":"object","description":%q}`, strings.Repeat("x", 100<<10))
		tools = append(tools, &mcp.Tool{Name: fmt.Sprintf("t%02d", 99-i), InputSchema: json.RawMessage(schema)})
	}
	o, err := d.offer(t.Context(), tools)
	require.NoError(t, err)
	content, err := json.Marshal(o.catalogue)
	require.NoError(t, err)
	assert.Less(t, len(content), maxOfferBytes+64<<10)
	assert.Equal(t, "mcp/x/t00", o.catalogue.Tools[0].ID)
	assert.Equal(t, "mcp/x/t39", o.catalogue.Tools[len(o.catalogue.Tools)-1].ID, "whatever order it lists them in")
	assert.Len(t, o.tools, len(o.catalogue.Tools))
	assert.Contains(t, o.catalogue.Dropped[0], "t40: with it the server's tools are over 4 MiB")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.offer(ctx, tools)
	assert.ErrorIs(t, err, context.Canceled, "the tools of a server that is given up are not looked at")
}
