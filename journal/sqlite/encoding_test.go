package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
)

// TestRawAnswersTakeLittleRoom checks that raw events are compressed: those of a streamed answer are many times its
// text, and similar to each other.
func TestRawAnswersTakeLittleRoom(t *testing.T) {
	raw := []byte("[" + strings.Repeat(
		`{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]},`, 10_000) + "0]")
	path := filepath.Join(t.TempDir(), "journal.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	hash, err := db.PutBlob(t.Context(), "application/json", raw)
	require.NoError(t, err)
	assert.Equal(t, journal.HashOf(raw), hash, "the content's hash, not that of how it is kept")
	got, err := db.GetBlob(t.Context(), hash)
	require.NoError(t, err)
	assert.Equal(t, string(raw), string(got))
	require.NoError(t, db.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(len(raw))/2)
}
