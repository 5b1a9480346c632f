package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAReplacedFileTakesNothing checks that a process writes nothing after its journal was deleted or replaced, for
// example by git clean or a restored backup. The process still has the old file open, and would lose everything that it
// writes there.
func TestAReplacedFileTakesNothing(t *testing.T) {
	for name, replace := range map[string]func(string) error{
		"deleted":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".old") },
		"restored": func(path string) error { return os.Rename(path+".backup", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			require.NoError(t, os.WriteFile(path+".backup", nil, 0o600))
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			require.NoError(t, err)
			defer db.Close()
			begin := func(id string) error {
				_, err := db.Begin(t.Context(), turn.BeginInput{Session: "s", Turn: id,
					Message: turn.UserMessage{ID: id, Text: "hi"}, At: time.Now()})
				return err
			}
			require.NoError(t, begin("t1"))
			require.NoError(t, replace(path))
			assert.ErrorIs(t, begin("t2"), journal.ErrReplaced)
			_, err = db.Turn(t.Context(), "t1")
			assert.ErrorIs(t, err, journal.ErrReplaced, "readers are told, too")
		})
	}
}
