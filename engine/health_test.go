package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAWorkerReportsItsHealth checks that a worker's servers are in the journal while it runs, and that the report is
// gone when it has stopped.
func TestAWorkerReportsItsHealth(t *testing.T) {
	e, other := beside(t)
	defer other(turn.ServerHealth{Server: "files", State: turn.ServerConnected})()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); e.reportHealth(ctx) }()
	var all []fleet.WorkerReport
	require.Eventually(t, func() bool {
		var err error
		all, err = e.journal.Workers(t.Context())
		require.NoError(t, err)
		return len(all) == 2
	}, 10*time.Second, 5*time.Millisecond)
	for _, w := range all {
		assert.Equal(t, e.identity(), w.Identity)
		assert.Equal(t, "files", w.Servers[0].Server)
		assert.Equal(t, w.ID == "other", w.Servers[0].State == turn.ServerConnected)
	}
	stop()
	<-stopped
	all, err := e.journal.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "other", all[0].ID)
}
