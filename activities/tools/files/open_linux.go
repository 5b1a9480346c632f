package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openAt opens an entry of a directory. It follows no link, and enters no mount. Kernels before 5.6, and the filters of
// system calls of some containers, have no openat2.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openOnDevice(dir, name, flags, mode)
	}
	return fd, err
}
