package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
)

func TestAServerRunsAsAnotherUser(t *testing.T) {
	dir := t.TempDir()
	s := stdioServer("srv", "-spy", filepath.Join(dir, "spied"))
	s.User = "nobody"
	if os.Getuid() != 0 {
		_, err := mcp.New(mcp.Options{Servers: []mcp.Server{s}, Environ: environ})
		require.ErrorContains(t, err, "needs a worker that runs as root")
		return
	}
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // another user writes there
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
	require.NoError(t, os.Chmod(filepath.Dir(binary), 0o711))
	h := newHost(t, mcp.Options{}, s)
	assert.Equal(t, "x", call(t, h, "mcp/srv/echo", `{"text":"x"}`).Text)
	b, err := os.ReadFile(filepath.Join(dir, "spied"))
	require.NoError(t, err)
	var found struct {
		UID, GID int
		Groups   []int
		Home     string
		Denied   map[string]string
	}
	require.NoError(t, json.Unmarshal(b, &found))
	assert.NotZero(t, found.UID)
	assert.NotZero(t, found.GID)
	assert.NotContains(t, found.Groups, 0)
	assert.NotEqual(t, "/nowhere", found.Home, "it has its parent's home")
	assert.Contains(t, found.Denied, "environ", "it reads a parent that is another user's")
}
