package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/sqlite"
)

// TestAWorkersReportExpires ages the report of a worker that was killed: it is no longer listed, and the next report of
// another worker removes its row.
func TestAWorkersReportExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path, sqlite.Options{})
	report := func(id string) {
		t.Helper()
		require.NoError(t, j.ReportWorker(t.Context(), fleet.WorkerReport{ID: id}))
	}
	report("killed")
	db := raw(t, path, fmt.Sprintf(`UPDATE workers SET seen_at = seen_at - %d`, fleet.WorkerExpiry))
	list, err := j.Workers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
	report("running")
	list, err = j.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, "running", list[0].ID)
	var rows int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM workers`).Scan(&rows))
	assert.Equal(t, 1, rows)
}
