package journaltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
)

// workersSeen reports on workers from one process and reads the reports in another one.
func workersSeen(t *testing.T, a, b *journal.DB) {
	report := func(id, identity, servers string) {
		t.Helper()
		require.NoError(t, a.ReportWorker(t.Context(), fleet.WorkerReport{
			ID: id, Identity: identity, TaskQueue: "queue", Servers: json.RawMessage(servers), SeenAt: start,
		}))
	}
	reported := func() (list []string) {
		t.Helper()
		all := must(b.Tenant("acme").Workers(t.Context()))(t)
		for _, w := range all {
			list = append(list, w.ID+" "+w.Identity+" "+w.TaskQueue+" "+string(w.Servers))
			assert.Less(t, time.Since(w.SeenAt).Abs(), time.Hour, "the database has another clock than this machine")
		}
		return list
	}
	assert.Empty(t, reported())
	report("2", "same", `[]`)
	report("1", "same", `[{"server":"files"}]`)
	report("2", "same", `[{"server":"mail"}]`)
	assert.Equal(t, []string{`1 same queue [{"server":"files"}]`, `2 same queue [{"server":"mail"}]`}, reported())
	require.NoError(t, b.RemoveWorker(t.Context(), "2"))
	require.NoError(t, b.RemoveWorker(t.Context(), "2"))
	assert.Equal(t, []string{`1 same queue [{"server":"files"}]`}, reported())
	require.Error(t, a.ReportWorker(t.Context(), fleet.WorkerReport{ID: "1", Servers: json.RawMessage(`{`)}))
	require.Error(t, a.ReportWorker(t.Context(), fleet.WorkerReport{Servers: json.RawMessage(`[]`)}))
}
