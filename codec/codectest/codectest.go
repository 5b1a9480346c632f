package codectest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/codec"
)

// File makes a key file that the test deletes.
func File(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	_, err := codec.Create(path)
	require.NoError(t, err)
	return path
}

// Keys makes a key file, as File does, and returns its keys.
func Keys(t *testing.T) *codec.Keys {
	t.Helper()
	keys, err := codec.OpenFile(File(t))
	require.NoError(t, err)
	return keys
}
