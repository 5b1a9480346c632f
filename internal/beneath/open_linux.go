package beneath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openAt opens an entry of the directory with the file descriptor dir. It follows no symbolic link and enters no
// mount. If the kernel (before 5.6) or the system call filter of a container does not permit openat2, it uses
// openOnDevice.
func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openOnDevice(dir, name, flags, mode)
	}
	return fd, err
}
