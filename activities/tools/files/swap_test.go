package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAFileThatIsReplacedByALinkIsNotRead checks that a tool reads only the file that it checked, even if a link
// replaces the file before it is opened.
func TestAFileThatIsReplacedByALinkIsNotRead(t *testing.T) {
	w, dir := tree(t, map[string]string{".env": "a", "plain": "b", "other": "c"})
	info := func(name string) os.FileInfo {
		i, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return i
	}
	assert.NoError(t, w.stillNamed("plain", "plain", info("plain")))
	assert.ErrorContains(t, w.stillNamed("plain", "plain", info(".env")), "changed while it was opened",
		"replaced and put back")
	require.NoError(t, os.Remove(filepath.Join(dir, "other")))
	require.NoError(t, os.Symlink(".env", filepath.Join(dir, "other")))
	assert.Error(t, w.stillNamed("other", "other", info("other")), "replaced by a link")
}
