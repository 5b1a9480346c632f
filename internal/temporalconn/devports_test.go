package temporalconn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/statedir"
)

func TestRememberedPortsAreUsedWhenNoSettingNamesAnAddress(t *testing.T) {
	dir, cloned := t.TempDir(), t.TempDir()
	require.NoError(t, statedir.Secure(dir))
	require.NoError(t, DevPorts{Frontend: 7241}.Write(cloned))
	require.NoError(t, DevPorts{Frontend: 7240}.Write(dir))
	home := "HOME=" + t.TempDir()
	address, _, err := Options{StateDir: cloned, Environ: []string{home}}.Resolved()
	require.NoError(t, err)
	assert.Equal(t, DefaultAddress, address, "a folder that came with a clone chooses no port")
	for want, o := range map[string]Options{
		"127.0.0.1:7240": {StateDir: dir, Environ: []string{home}},
		DefaultAddress:   {StateDir: t.TempDir(), Environ: []string{home}},
		"127.0.0.1:9":    {StateDir: dir, Environ: []string{home}, Address: "127.0.0.1:9"},
		"127.0.0.1:8":    {StateDir: dir, Environ: []string{home, "TEMPORAL_ADDRESS=127.0.0.1:8"}},
	} {
		address, _, err := o.Resolved()
		require.NoError(t, err)
		assert.Equal(t, want, address)
	}
	for _, content := range []string{"", "{}", `{"frontend":72400}`, `{"frontend":"192.0.2.1"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, devPortsName), []byte(content), 0o600))
		_, _, err := Options{StateDir: dir, Environ: []string{home}}.Resolved()
		assert.ErrorIs(t, err, config.ErrInvalid, content)
	}
}
