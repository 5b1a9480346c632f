// Package stdio gives tests terminals, pipes and files as standard input and outputs.
package stdio

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Terminal returns a terminal: the far end of a pseudoterminal of the kernel.
func Terminal(t testing.TB) *os.File {
	t.Helper()
	near, far := Pseudoterminal(t)
	t.Cleanup(func() { near.Close() })
	return far
}

// Pseudoterminal opens both ends of a pseudoterminal (ptmx(4)) of 24 rows and 80 columns. Far is closed with the test.
func Pseudoterminal(t testing.TB) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { far.Close() })
	return near, far
}

// Open opens a file for the length of the test.
func Open(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// File returns a file with a content.
func File(t testing.TB, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return Open(t, path)
}

// Pipe returns a pipe with a content. Unless closed, its writer stays open, as that of an inherited pipe does.
func Pipe(t testing.TB, content string, closed bool) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = w.WriteString(content)
	require.NoError(t, err)
	if closed {
		require.NoError(t, w.Close())
	}
	t.Cleanup(func() { w.Close(); r.Close() })
	return r
}
