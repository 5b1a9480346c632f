package servers

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/workflows/turn"
)

// A server's annotations of its own tools count only if it is trusted; that a tool is destructive is believed of every
// server.
func TestAnnotationsCountOnlyFromTrustedServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for trust, reading := range map[bool]turn.Descriptor{
		false: {Risk: turn.RiskMedium, Effects: turn.Effects{Taints: true}},
		true:  {Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true}},
	} {
		server := stdioServer(t, "files", "@modelcontextprotocol/server-filesystem", dir)
		server.Trust, server.Timeouts.Connect = trust, within
		tools := offered(t, server)
		got := tools["mcp/files/read_text_file"]
		assert.Equal(t, reading.Risk, got.Risk, "trust %t", trust)
		assert.Equal(t, reading.Repeatable, got.Repeatable, "trust %t", trust)
		assert.Equal(t, reading.Effects, got.Effects, "trust %t", trust)
		writing := tools["mcp/files/write_file"]
		assert.Equal(t, turn.RiskHigh, writing.Risk, "trust %t", trust)
		assert.False(t, writing.ReadOnly, "trust %t", trust)
	}
}

// offered returns the tools of a server, by ID.
func offered(t *testing.T, server config.MCPServer) map[string]turn.Descriptor {
	t.Helper()
	cfg := config.Default()
	cfg.Runtime.Workspace = t.TempDir()
	cfg.MCP.Servers = []config.MCPServer{server}
	catalogues, _, err := engine.AskServers(t.Context(), cfg, engine.WithEnviron(os.Environ()))
	require.NoError(t, err)
	tools := map[string]turn.Descriptor{}
	for _, c := range catalogues {
		require.Empty(t, c.Problem)
		require.Empty(t, c.Dropped, "tools of %s are left out", c.Server)
		if c.Server == server.ID {
			for _, d := range c.Tools {
				tools[d.ID] = d
			}
		}
	}
	return tools
}
