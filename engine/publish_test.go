package engine

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// beside returns an engine with a journal, whose only server cannot be started, and a function that publishes another
// worker's health for that server. That function returns one that ends the other worker.
func beside(t *testing.T) (*Engine, func(turn.ServerHealth) func()) {
	cfg := config.Default()
	cfg.Journal.Path = filepath.Join(t.TempDir(), "journal.db")
	cfg.Runtime.Workspace = t.TempDir()
	cfg.MCP.Servers = []config.MCPServer{{ID: "files", Command: "no-such-command-anywhere"}}
	e := newEngine(cfg, nil)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	require.NoError(t, e.openTools(t.Context()))
	require.NoError(t, e.openJournal(t.Context()))
	return e, func(s turn.ServerHealth) func() {
		require.NoError(t, e.journal.ReportWorker(t.Context(),
			fleet.WorkerReport{ID: "other", Identity: e.identity(), Servers: []turn.ServerHealth{s}}))
		return func() { require.NoError(t, e.journal.RemoveWorker(context.WithoutCancel(t.Context()), "other")) }
	}
}

func current(t *testing.T, e *Engine) turn.Catalogue {
	t.Helper()
	list, err := e.journal.OfferedBy(t.Context(), nil)
	require.NoError(t, err)
	for _, c := range list {
		if c.Server == "files" {
			return c
		}
	}
	return turn.Catalogue{}
}

var offered = turn.Catalogue{Server: "files", Hash: "h", ConfigHash: "s",
	Tools: []turn.Descriptor{{ID: "mcp/files/read", Hash: "1"}}}

// told is a log that sends each line to a channel.
type told chan string

func (t told) Write(line []byte) (int, error) {
	t <- string(line)
	return len(line), nil
}

// TestAServerThatAnotherWorkerHasIsNotTakenAway checks that a worker that cannot start a server does not withdraw its
// tools from workers that can.
func TestAServerThatAnotherWorkerHasIsNotTakenAway(t *testing.T) {
	e, other := beside(t)
	log := make(told, 100)
	e.log = slog.New(slog.NewTextHandler(log, nil))
	require.NoError(t, e.journal.PublishCatalogue(t.Context(), offered))
	end := other(turn.ServerHealth{Server: "files", State: turn.ServerFailing,
		Tenants: []turn.TenantHealth{{State: turn.ServerConnected}, {Tenant: "acme", State: turn.ServerFailing}}})

	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); e.watch(ctx) }()
	select {
	case line := <-log:
		assert.Contains(t, line, "only to another worker")
	case <-time.After(10 * time.Second):
		assert.Fail(t, "the watcher says nothing")
	}
	stop()
	<-watched
	assert.Equal(t, offered.Tools, bare(current(t, e).Tools))

	away := turn.Catalogue{Server: "files", ConfigHash: "s", Problem: "it is not in PATH"}
	known := &publishedCatalogues{last: map[string]turn.Catalogue{"files": away}}
	e.reconcile(t.Context(), known)
	assert.Equal(t, offered.Tools, bare(current(t, e).Tools))
	end()
	e.reconcile(t.Context(), known)
	assert.Equal(t, away.Problem, current(t, e).Problem, "nobody can ask it any more")
}

// TestACatalogueThatWasOverwrittenIsPublishedAgain checks that a worker that can reach a server restores its catalogue
// after one that cannot has overwritten it, even though the server's tools have not changed.
func TestACatalogueThatWasOverwrittenIsPublishedAgain(t *testing.T) {
	e, _ := beside(t)
	known := &publishedCatalogues{last: map[string]turn.Catalogue{}}
	require.NoError(t, e.publishChange(t.Context(), known, offered))
	require.NoError(t, e.journal.PublishCatalogue(t.Context(),
		turn.Catalogue{Server: "files", ConfigHash: "s", Problem: "npx: not found"}))
	e.reconcile(t.Context(), known)
	assert.Equal(t, offered.Tools, bare(current(t, e).Tools))

	newer := turn.Catalogue{Server: "files", Hash: "of another worker", ConfigHash: "s"}
	require.NoError(t, e.journal.PublishCatalogue(t.Context(), newer))
	e.reconcile(t.Context(), known)
	assert.Equal(t, newer.Hash, current(t, e).Hash, "two workers do not take turns")
}

// TestAServerThatNoWorkerHasIsAway checks that a server that fails on every worker is published as unavailable,
// whichever worker connects first.
func TestAServerThatNoWorkerHasIsAway(t *testing.T) {
	for _, state := range []turn.ServerHealth{{Server: "files", State: turn.ServerFailing},
		{Server: "mail", State: turn.ServerConnected}} {
		e, other := beside(t)
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, e.journal.PublishCatalogue(ctx, offered))
		defer other(state)()
		watched := make(chan struct{})
		go func() { defer close(watched); e.watch(ctx) }()
		require.Eventually(t, func() bool { return current(t, e).Problem != "" }, 10*time.Second, 5*time.Millisecond)
		stop()
		<-watched
	}
}

// bare removes the fields that the journal adds.
func bare(tools []turn.Descriptor) []turn.Descriptor {
	for i := range tools {
		tools[i].Schema = nil
	}
	return tools
}
