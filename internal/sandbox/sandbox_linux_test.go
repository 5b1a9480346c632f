package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, level Level, network Network) *Sandbox {
	t.Helper()
	began := time.Now()
	s, err := Open(t.Context(), Options{Level: level, Network: network, Environ: os.Environ(),
		Limits: Limits{Processes: 256, Memory: 4 << 30, File: 256 << 20}})
	require.NoError(t, err)
	t.Log(s, "tried in", time.Since(began))
	return s
}

func TestX(t *testing.T) {
	for _, l := range []Level{LevelNamespace, LevelLandlock, LevelNone} {
		s := open(t, l, NetworkLoopback)
		root := filepath.Join(t.TempDir(), "w")
		require.NoError(t, os.Mkdir(root, 0o755))
		var out bytes.Buffer
		began := time.Now()
		e, err := s.Run(t.Context(), Command{Line: os.Getenv("X"), Output: &out, Place: Place{Root: realPath(root), Write: []string{realPath(root)}}})
		t.Log(e, err, out.String(), time.Since(began))
	}
}
