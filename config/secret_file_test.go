package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASecretComesFromAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(file, []byte("sk-from-a-file\r\n"), 0o600))
	loaded, err := Load(LoadOptions{Path: write(t, fmt.Sprintf(
		"[llm]\napi_key = \"${file:%s}\"\n[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\nenv = { AUTH = \"Bearer "+
			"${file:%s}\" }\n", file, file))})
	require.NoError(t, err)
	assert.Equal(t, "sk-from-a-file", loaded.Config.LLM.APIKey.Reveal())
	assert.Equal(t, "Bearer sk-from-a-file", loaded.Config.MCP.Servers[0].Env["AUTH"].Reveal())
	assert.Equal(t, []string{loaded.Path, file, file}, loaded.Config.Sources())
	var shown strings.Builder
	require.NoError(t, loaded.Show(&shown, true))
	assert.NotContains(t, shown.String(), "sk-from-a-file")
}

func TestAFileIsNoSecret(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	require.NoError(t, os.WriteFile(large, make([]byte, maxSecretBytes+1), 0o600))
	pipe := filepath.Join(dir, "pipe") // without a writer
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for reference, want := range map[string]string{
		"api_key = \"${file:" + pipe + "}\"":  "is empty",
		"api_key = \"${file:/no/such/file}\"": "no such file",
		"api_key = \"${file:key}\"":           "is not absolute",
		"api_key = \"${file:" + empty + "}\"": "is empty",
		"api_key = \"${file:" + large + "}\"": "is larger than 65536 bytes",
		"api_key = \"${file:" + dir + "}\"":   "is a directory",
		"model = \"${file:/etc/hostname}\"":   "only secrets may come from files",
	} {
		_, err := Load(LoadOptions{Path: write(t, "[llm]\n"+reference+"\n")})
		require.ErrorContains(t, err, want)
		if !strings.HasPrefix(reference, "model") {
			require.ErrorIs(t, err, ErrCredentials)
		}
	}
}

// TestTheJournalsHostIsInItsURL checks that no other file decides where the journal's password is sent.
func TestTheJournalsHostIsInItsURL(t *testing.T) {
	for _, query := range []string{"service=db", "sslmode=disable&servicefile=pg.conf"} {
		_, err := Load(LoadOptions{Path: write(t, "[journal]\nurl = \"postgres:///?"+query+"\"\n")})
		assert.ErrorContains(t, err, "names a service")
	}
}
