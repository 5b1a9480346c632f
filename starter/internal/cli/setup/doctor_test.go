package setup

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// TestAServersProblemIsReportedWithoutAJournal checks the finding about a server that does not start, if the journal
// cannot be read either.
func TestAServersProblemIsReportedWithoutAJournal(t *testing.T) {
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal"), sqlite.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	x := &examination{
		app:     &app.App{Streams: app.Streams{Out: io.Discard, Err: io.Discard}, Environ: []string{"HOME=" + t.TempDir()}},
		cfg:     config.Default(),
		journal: func() (client.Journal, error) { return j, nil },
	}
	text, err := checkTools(t.Context(), x)
	assert.Equal(t, finding{Check: "tools", State: "warn", Text: "not checked: see journal"}, findingOf("tools", text, err))

	x.cfg.MCP.Servers = []config.MCPServer{{ID: "git", Command: "/none/git"}}
	text, err = checkTools(t.Context(), x)
	f := findingOf("tools", text, err)
	assert.Equal(t, "fail", f.State)
	assert.Contains(t, f.Text, "git")
}
