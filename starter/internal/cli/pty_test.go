package cli

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// aTerminal is a terminal: the far end of a pseudoterminal of the kernel.
func aTerminal(t *testing.T) *os.File {
	t.Helper()
	near, far := pseudoterminal(t)
	t.Cleanup(func() { near.Close() })
	return far
}

// pseudoterminal opens both ends of one (ptmx(4)). far is closed with the test.
func pseudoterminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { far.Close() })
	return near, far
}
