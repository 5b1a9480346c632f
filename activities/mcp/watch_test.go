package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
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
	var p spacing
	assert.True(t, p.next.Before(now), "the first is made at once")
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		p.listed(now, time.Millisecond)
		assert.Equal(t, want*time.Second, p.next.Sub(now))
		now = p.next
	}
	p.listed(now, 10*time.Second)
	assert.Equal(t, 200*time.Second, p.next.Sub(now), "a list that takes long")
	now = p.next.Add(2 * time.Minute)
	p.listed(now, time.Millisecond)
	assert.Equal(t, relistPause, p.next.Sub(now), "after a quiet time")
}

func TestAServerThatAlwaysChangesIsListedSeldom(t *testing.T) {
	var lists atomic.Int32
	h := babbling(t, &babbler{
		said: []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`), at: -1, loud: true,
		mute: func(method string) bool {
			if method == "tools/list" {
				lists.Add(1)
			}
			return false
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); h.Watch(ctx, func(turn.Catalogue) {}) }()
	defer func() { cancel(); <-over; assert.NoError(t, h.Close()) }()
	require.Eventually(t, func() bool { return lists.Load() == 2 }, 10*time.Second, time.Millisecond,
		"a change is seen at once")
	time.Sleep(5 * lookPause) // waits for a list that must not come, so there is no event
	assert.Equal(t, int32(2), lists.Load())

	s := inUse(h)
	s.mu.Lock()
	assert.True(t, s.stale && s.due, "the last change is seen later")
	s.mu.Unlock()
	assert.Equal(t, "done", ask(t, h), "a call does not wait")
	assert.Greater(t, lists.Load(), int32(2))
}

// changing dials a server that offers another tool in each session.
type changing struct {
	sessions int
	end      func() // ends the session
}

func (d *changing) dial(context.Context, string) (*link, error) {
	d.sessions++
	server := sdk.NewServer(&sdk.Implementation{Name: "changing"}, nil)
	server.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%d", d.sessions), InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	here, there := sdk.NewInMemoryTransports()
	s, err := server.Connect(context.Background(), there, nil)
	if err != nil {
		return nil, err
	}
	stop := sync.OnceValue(s.Close)
	d.end = func() { _ = stop() }
	return &link{transport: here, versions: []string{versionLegacy}, disposable: true, stop: stop, tail: silent,
		fate: silent}, nil
}

func TestAServerThatChangesInEachSessionIsReportedSeldom(t *testing.T) {
	d := &changing{}
	h := babbling(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	began, reports := time.Now(), 0
	h.Watch(ctx, func(c turn.Catalogue) {
		if len(c.Tools) == 0 {
			return
		}
		if reports++; reports == 4 {
			cancel()
		}
		d.end()
	})
	require.NoError(t, h.Close())
	assert.GreaterOrEqual(t, time.Since(began), 7*lookPause, "the pause doubles: 1, 2 and 4 times lookPause")
	assert.Equal(t, lookPause, changePause(maxRelistPause, 2*time.Minute), "after a quiet time")
	assert.Equal(t, maxRelistPause, changePause(maxRelistPause, time.Second))
}
