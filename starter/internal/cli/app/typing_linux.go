package app

import (
	"os"

	"golang.org/x/sys/unix"
)

// DiscardInput drops input that was typed at a terminal and not read, because it was not meant for the next question.
func DiscardInput(f *os.File) {
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // input that cannot be dropped is read
}
