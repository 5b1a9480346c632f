package sandbox

import "golang.org/x/sys/unix"

// legacyRefused are refusals of calls that only this architecture has.
func legacyRefused() []refusal {
	const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	return []refusal{
		{unix.SYS_CHMOD, unix.EPERM, []condition{{1, anyOf, setIDs}}},
		{unix.SYS_MKDIR, unix.EPERM, []condition{{1, anyOf, setIDs}}},
		{unix.SYS_MKNOD, unix.EPERM, []condition{{1, anyOf, setIDs | devices}}},
		{unix.SYS_CREAT, unix.EPERM, []condition{{1, anyOf, setIDs}}},
		{unix.SYS_OPEN, unix.EPERM, []condition{{1, anyOf, creates}, {2, anyOf, setIDs}}},
	}
}

// legacyWithoutNamespaces are those of refusedWithoutNamespaces that only this architecture has.
func legacyWithoutNamespaces() []refusal {
	return refuse(unix.EPERM, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES,
		unix.SYS_FUTIMESAT)
}
