package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// hookedContext calls hook whenever its error is asked for, which the host does for each tool that it describes.
type hookedContext struct {
	context.Context
	hook func()
}

func (c hookedContext) Err() error {
	c.hook()
	return c.Context.Err()
}

// TestCallersUseAConnectionWhileItsToolsAreDescribed checks that a listing holds no lock of the session while it
// describes tools and reports the catalogue. The callers below hold the connector's lock and ask for the session's.
func TestCallersUseAConnectionWhileItsToolsAreDescribed(t *testing.T) {
	h := babbling(t, &babbler{at: -1})
	c := h.connectors["srv"]
	s, err := c.acquire(t.Context(), "", "")
	require.NoError(t, err)
	var callers sync.WaitGroup
	ctx := hookedContext{t.Context(), func() {
		locked := make(chan struct{})
		callers.Go(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			close(locked)
			_ = s.isStale()
		})
		<-locked
	}}
	asked := make(chan error, 1)
	go func() { asked <- s.ask(ctx); callers.Wait() }()
	select {
	case err := <-asked:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the listing and the callers wait for each other")
	}
	s.leave()
	require.NoError(t, h.Close())
}

// TestTenantsMayConnectAtTheSameTime covers a server that refuses to list its tools in the newest protocol: one
// tenant's connect finds out which version works while another tenant's connect still tries the newest one.
func TestTenantsMayConnectAtTheSameTime(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "srv", Version: "1"}, nil)
	serve := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	var lists atomic.Int32
	discovers := make(chan chan struct{}, 2) // one element for each connect in the newest protocol; closing it continues
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, err := io.ReadAll(r.Body)
		_ = errors.Join(err, json.Unmarshal(body, &m))
		if m.Method == "server/discover" {
			continues := make(chan struct{})
			discovers <- continues
			<-continues
		}
		if m.Method == "server/discover" || m.Method == "tools/list" && lists.Add(1)%2 == 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no"}}`, m.ID)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		serve.ServeHTTP(w, r)
	}))
	defer web.Close()
	h, err := New(Options{Servers: []Server{{ID: "srv", URL: web.URL, ConnectTimeout: time.Minute}}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, h.Close()) }()
	connected := make(chan error, 2)
	connect := func(tenant string) chan struct{} {
		go func() {
			s, err := h.connectors["srv"].acquire(t.Context(), tenant, "")
			if err == nil {
				s.leave()
			}
			connected <- err
		}()
		return <-discovers
	}
	acme, beta := connect("acme"), connect("beta")
	close(acme)
	require.NoError(t, <-connected)
	close(beta)
	require.NoError(t, <-connected)
	assert.EqualValues(t, 4, lists.Load(), "both tenants tried both versions")
}

// TestAResultThatArrivesWithTheEndOfItsTimeIsReported covers a detached call whose answer and whose deadline are both
// there: the answer takes precedence.
func TestAResultThatArrivesWithTheEndOfItsTimeIsReported(t *testing.T) {
	h := babbling(t, &babbler{at: -1})
	req := working(t, h, "work", `{}`)
	s := inUse(h)
	for range 32 { // select chooses at random
		late := make(chan turn.ToolResult, 1)
		req.Late = func(r turn.ToolResult) { late <- r }
		f := &dispatch{c: s.owner, s: s, req: req, name: "work"}
		f.begin(t.Context(), turn.Descriptor{})
		_, f.state = newCallState(f.wire)
		f.detach = -1
		f.replies <- reply{result: &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}}
		s.conn.Stay()
		f.awaitDetached()
		require.Len(t, late, 1)
		require.Equal(t, "done", (<-late).Text)
	}
	require.NoError(t, h.Close())
}
