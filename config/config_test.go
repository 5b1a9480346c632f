package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// write writes a configuration to a new file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaultIsValid(t *testing.T) {
	require.NoError(t, Default().Validate())
}

func TestExampleMeansTheDefault(t *testing.T) {
	loaded, err := Load(LoadOptions{Path: write(t, Example())})
	require.NoError(t, err)
	loaded.Config.sources = nil
	assert.Equal(t, Default(), loaded.Config)
}

var commented = regexp.MustCompile(`(?m)^#([a-zA-Z_\[])`)

func TestExampleUncommentedIsValid(t *testing.T) {
	text := commented.ReplaceAllString(Example(), "$1")
	loaded, err := Load(LoadOptions{
		Path: write(t, text), Environ: []string{"MY_PROVIDER_KEY=sk-test", "MY_TEMPORAL_KEY=key"},
	})
	require.NoError(t, err)
	require.Len(t, loaded.Config.Policy.Rules, 1)
	assert.Equal(t, map[string]string{"path": "docs/**"}, loaded.Config.Policy.Rules[0].Arguments)
	require.Len(t, loaded.Config.MCP.Servers, 1)
	s := loaded.Config.MCP.Servers[0]
	assert.Equal(t, map[string]MCPTool{"list_directory": {Repeatable: true, LocalActivity: true, Risk: turn.RiskLow,
		Timeout: 5 * time.Second}}, s.Tools)
	assert.Equal(t, "warn", s.Env["LOG_LEVEL"].Reveal())
	assert.Equal(t, "sk-test", loaded.Config.LLM.APIKey.Reveal())
	assert.Equal(t, 0.2, *loaded.Config.LLM.Temperature)
}
