package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// TestTurnsOnPostgres runs turns with a tool call and an approval on two workers whose journal is in Postgres.
func TestTurnsOnPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	model := fakellm.Start(t, fakellm.Steps(
		fakellm.Calls(fakellm.ToolCall{Name: "local_list_files", Arguments: "{}"}), fakellm.Text("Two files."),
	))
	url := server.Empty(t)
	h := newUserFolder(t, asking(model)+fmt.Sprintf(
		"[policy]\nask = [\"local/list_files\"]\n[journal]\nurl = %q\n", url))
	assert.Contains(t, h.everturn("list").exits(3).err.String(), "everturn journal migrate")
	assert.Contains(t, h.worker().exits(1).err.String(), "everturn journal migrate")
	h.everturn("journal", "migrate").exits(0)
	assert.Contains(t, h.everturn("journal", "migrate").exits(0).out.String(), "nothing to do")

	// A newer program has migrated the journal meanwhile, as in a rollout: the workers go on.
	require.NoError(t, server.Exec(t.Context(), url, `UPDATE journal SET schema_version = schema_version + 1`))
	require.NoError(t, server.Exec(t.Context(), url, `ALTER TABLE turns ADD COLUMN of_a_newer_program bigint`))
	assert.Contains(t, h.everturn("journal", "migrate").exits(0).out.String(), "nothing to do")
	h.worker()
	h.worker()
	h.everturn("run", "-s", "on-postgres", "Which files?").exits(6)
	h.everturn("approve", "on-postgres", "1.0", "-y").exits(0)
	assert.Contains(t, h.everturn("attach", "on-postgres").exits(0).out.String(), "Two files.")
	is := decoded[shown](h.everturn("show", "-o", "json", "on-postgres").exits(0))
	assert.Equal(t, turn.StateCompleted, is.Turns[0].Turn.State)
	assert.Equal(t, turn.OutcomeOK, is.Turns[0].Calls[0].Outcome)

	require.NoError(t, server.Exec(t.Context(), url, `ALTER TABLE turns DROP COLUMN of_a_newer_program`))
	h.everturn("journal", "copy", url, "copy.db").exits(0)
	copied := h.everturn("show", "-o", "json", "on-postgres", "--set", "journal.url=", "--set",
		"journal.path=copy.db").exits(0)
	assert.Equal(t, is, decoded[shown](copied))
	assert.Contains(t, h.everturn("journal", "copy", url, "copy.db").exits(3).err.String(), "not empty")
}
