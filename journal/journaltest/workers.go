package journaltest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// workersSeen reports on workers from one process and reads the reports in another one.
func workersSeen(t *testing.T, a, b *journal.DB) {
	report := func(id, identity string, servers ...string) {
		t.Helper()
		r := fleet.WorkerReport{ID: id, Identity: identity, TaskQueue: "queue", SeenAt: start}
		for _, server := range servers {
			r.Servers = append(r.Servers, turn.ServerHealth{Server: server, State: turn.ServerIdle})
		}
		require.NoError(t, a.ReportWorker(t.Context(), r))
	}
	reported := func() (list []string) {
		t.Helper()
		all := must(b.Tenant("acme").Workers(t.Context()))(t)
		for _, w := range all {
			row := w.ID + " " + w.Identity + " " + w.TaskQueue
			for _, h := range w.Servers {
				row += " " + h.Server + " " + string(h.State)
			}
			list = append(list, row)
			assert.Less(t, time.Since(w.SeenAt).Abs(), time.Hour, "the database has another clock than this machine")
		}
		return list
	}
	assert.Empty(t, reported())
	report("2", "same")
	report("1", "same", "files")
	report("2", "same", "mail")
	assert.Equal(t, []string{"1 same queue files idle", "2 same queue mail idle"}, reported())
	require.NoError(t, b.RemoveWorker(t.Context(), "2"))
	require.NoError(t, b.RemoveWorker(t.Context(), "2"))
	assert.Equal(t, []string{"1 same queue files idle"}, reported())
	require.Error(t, a.ReportWorker(t.Context(), fleet.WorkerReport{}))
}
