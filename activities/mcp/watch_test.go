package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheToolsOfAServerAreBoundedTogether(t *testing.T) {
	d := describer{prefix: "mcp/x", server: Server{ID: "x"}}
	var tools []*sdk.Tool
	for i := range 100 {
		schema := fmt.Sprintf(`{"type":"object","description":%q}`, strings.Repeat("x", 100<<10))
		tools = append(tools, &sdk.Tool{Name: fmt.Sprintf("t%02d", 99-i), InputSchema: json.RawMessage(schema)})
	}
	o, err := d.offer(t.Context(), tools)
	require.NoError(t, err)
	content, err := json.Marshal(o.catalogue)
	require.NoError(t, err)
	assert.Less(t, len(content), maxOfferBytes+64<<10)
	assert.Equal(t, "mcp/x/t00", o.catalogue.Tools[0].ID)
	assert.Equal(t, "mcp/x/t04", o.catalogue.Tools[len(o.catalogue.Tools)-1].ID, "whatever order it lists them in")
	assert.Len(t, o.tools, len(o.catalogue.Tools))
	assert.Contains(t, o.catalogue.Dropped[0], "t05: with it the server's tools are over 512 KiB")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.offer(ctx, tools)
	assert.ErrorIs(t, err, context.Canceled, "the tools of a server that is given up are not looked at")
}

func TestListsThatAServerAsksForAreKeptApart(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var s spacing
	assert.True(t, s.next.Before(now), "the first is made at once")
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		s.listed(now, time.Millisecond)
		assert.Equal(t, want*time.Second, s.next.Sub(now))
		now = s.next
	}
	s.listed(now, 10*time.Second)
	assert.Equal(t, 200*time.Second, s.next.Sub(now), "a list that takes long")
	now = s.next.Add(2 * time.Minute)
	s.listed(now, time.Millisecond)
	assert.Equal(t, relistPause, s.next.Sub(now), "after a quiet time")
}
