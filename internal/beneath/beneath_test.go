package beneath

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWithoutOpenat2 opens what openat2 would refuse by the means of other systems.
func TestWithoutOpenat2(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "d"), 0o700))
	require.NoError(t, os.Symlink("d", filepath.Join(root, "l")))
	open := func(dir, name string) error {
		f, err := os.Open(dir)
		require.NoError(t, err)
		defer f.Close()
		fd, err := openOnDevice(int(f.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil {
			require.NoError(t, unix.Close(fd))
		}
		return err
	}
	require.NoError(t, open(root, "d"))
	require.ErrorIs(t, open(root, "l"), unix.ENOTDIR)
	require.ErrorIs(t, open("/", "proc"), unix.EXDEV)
}
