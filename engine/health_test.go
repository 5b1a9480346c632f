package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
)

func TestOnlyWorkersThatRunAreHeard(t *testing.T) {
	cfg := config.Default()
	cfg.Journal.Path = filepath.Join(t.TempDir(), "journal.db")
	none, err := Health(cfg)
	require.NoError(t, err)
	assert.Empty(t, none)

	write := func(name string, w WorkerHealth) {
		kept, err := writeHealth(filepath.Join(healthDir(cfg), name), w)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, kept.Close()) })
	}
	write("1.json", WorkerHealth{Worker: "b", At: time.Now(), Servers: []ServerHealth{{Server: "files", State: ServerConnected}}})
	write("2.json", WorkerHealth{Worker: "a", At: time.Now().Add(-healthEvery)})
	write("3.json", WorkerHealth{Worker: "killed", At: time.Now().Add(-time.Minute)})
	write("4.json", WorkerHealth{Worker: "of another time", At: time.Now().Add(time.Hour)})
	write("5.json.new", WorkerHealth{Worker: "half written", At: time.Now()})
	require.NoError(t, os.WriteFile(filepath.Join(healthDir(cfg), "6.json"), []byte("{"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(healthDir(cfg), "7.json"), 0o700))
	all, err := Health(cfg)
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, []string{"a", "b"}, []string{all[0].Worker, all[1].Worker})
	assert.Equal(t, ServerConnected, all[1].Servers[0].State)

	ended, err := writeHealth(filepath.Join(healthDir(cfg), "8.json"), WorkerHealth{Worker: "just killed", At: time.Now()})
	require.NoError(t, err)
	require.NoError(t, ended.Close())
	all, err = Health(cfg)
	require.NoError(t, err)
	assert.Len(t, all, 2, "its lock is gone, however fresh its word is")
}

func TestHealthIsNotWrittenThroughALink(t *testing.T) {
	target, file := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "1.json")
	require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(target, file+".new"))
	_, err := writeHealth(file, WorkerHealth{Worker: "a", At: time.Now()})
	require.Error(t, err)
	kept, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(kept))
}
