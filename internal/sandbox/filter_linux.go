package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// architectures are the architectures that the filter supports, with the kernel's numbers for them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refusal makes the filter refuse a system call if all of its conditions hold.
type refusal struct {
	call  uintptr
	errno syscall.Errno // 0: the call reports success and does nothing
	when  []condition
}

// condition compares the lower half of an argument of a system call.
type condition struct {
	argument int
	is       comparison
	value    uint32
}

type comparison uint16

const (
	equal   comparison = iota
	unequal            // to value
	anyOf              // has a bit of value
)

// refuse refuses calls in all circumstances.
func refuse(errno syscall.Errno, calls ...uintptr) (out []refusal) {
	for _, c := range calls {
		out = append(out, refusal{call: c, errno: errno})
	}
	return out
}

// setIDs are the mode bits of programs that run as their owner or group.
const setIDs = unix.S_ISUID | unix.S_ISGID

// devices is a bit of the modes of character and block devices, and of nothing else.
const devices = unix.S_IFCHR

// alwaysRefused are the calls that no command may make: those on other processes, on the kernel and on mounts, those
// that the filter cannot look into, and those that make a program that runs as its owner.
func alwaysRefused() []refusal {
	out := refuse(unix.EPERM, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
		unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_QUOTACTL,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE)
	// Programs fall back to openat and clone, whose arguments the filter sees.
	out = append(out, refuse(unix.ENOSYS, unix.SYS_OPENAT2, unix.SYS_CLONE3)...)
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	out = append(out, legacyRefused()...)
	return append(out,
		refusal{unix.SYS_CLONE, unix.EPERM, []condition{{0, anyOf, namespaces}}},
		refusal{unix.SYS_FCHMOD, unix.EPERM, []condition{{1, anyOf, setIDs}}},
		refusal{unix.SYS_FCHMODAT, unix.EPERM, []condition{{2, anyOf, setIDs}}},
		refusal{unix.SYS_FCHMODAT2, unix.EPERM, []condition{{2, anyOf, setIDs}}},
		refusal{unix.SYS_MKDIRAT, unix.EPERM, []condition{{2, anyOf, setIDs}}},
		refusal{unix.SYS_MKNODAT, unix.EPERM, []condition{{2, anyOf, setIDs | devices}}},
		refusal{unix.SYS_OPENAT, unix.EPERM, []condition{{2, anyOf, creates}, {3, anyOf, setIDs}}},
		refusal{unix.SYS_FCNTL, unix.EPERM, []condition{{1, equal, unix.F_SETLEASE}}},
		refusal{unix.SYS_IOCTL, unix.EPERM, []condition{{1, equal, unix.TIOCSTI}}},
		refusal{unix.SYS_IOCTL, unix.EPERM, []condition{{1, equal, unix.TIOCLINUX}}})
}

// refusedSockets returns the refusals of sockets. local permits those of the family UNIX, ip those of IP.
func refusedSockets(local, ip bool) []refusal {
	var others []condition // a family that is none of the permitted ones
	if local {
		others = append(others, condition{0, unequal, unix.AF_UNIX})
	}
	if ip {
		others = append(others, condition{0, unequal, unix.AF_INET}, condition{0, unequal, unix.AF_INET6})
	}
	return []refusal{{unix.SYS_SOCKET, unix.EACCES, others}}
}

// refusedWithoutNamespaces are the calls that act on any file of the user or on any of its processes, which Landlock
// does not see.
func refusedWithoutNamespaces() []refusal {
	out := refuse(unix.EPERM, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
		unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_PROCESS_MADVISE)
	const setFlags, setExtended = 0x40086602, 0x401c5820 // FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, of linux/fs.h
	out = append(out,
		refusal{unix.SYS_PRLIMIT64, unix.EPERM, []condition{{0, unequal, 0}}},
		refusal{unix.SYS_SETPRIORITY, unix.EPERM, []condition{{0, unequal, unix.PRIO_PROCESS}}},
		refusal{unix.SYS_SETPRIORITY, unix.EPERM, []condition{{1, unequal, 0}}},
		refusal{unix.SYS_SCHED_SETAFFINITY, unix.EPERM, []condition{{0, unequal, 0}}},
		refusal{unix.SYS_IOCTL, unix.EPERM, []condition{{1, equal, setFlags}}},
		refusal{unix.SYS_IOCTL, unix.EPERM, []condition{{1, equal, setExtended}}},
		// A pair of datagram sockets can send to any other socket of the machine. Streams and sequenced packets, whose types
		// do not have this bit, cannot.
		refusal{unix.SYS_SOCKETPAIR, unix.EPERM, []condition{{1, anyOf, unix.SOCK_DGRAM}}})
	return append(out, legacyWithoutNamespaces()...)
}

// assemble returns the filter as a program for the kernel. It refuses every call of another architecture.
func assemble(refusals []refusal) (filter []unix.SockFilter) {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jump   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		bits   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// The offsets of the call's number, of its architecture and of its arguments in the kernel's struct seccomp_data.
		// Both architectures store the lower half of an argument first.
		number, architecture, arguments = 0, 4, 16
		// x32's numbers begin here; no other call of these architectures is so high.
		otherABI = 0x40000000
	)
	// Jt and Jf are the numbers of instructions to skip if a comparison is true or false.
	filter = []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: jump, K: architectures[runtime.GOARCH], Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{Code: load, K: number},
		{Code: least, K: otherABI, Jf: 1},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
	}
	for _, r := range refusals {
		left := uint8(2*len(r.when) + 1) // instructions after the comparison of the number
		filter = append(filter, unix.SockFilter{Code: load, K: number},
			unix.SockFilter{Code: jump, K: uint32(r.call), Jf: left})
		for _, c := range r.when {
			left -= 2
			test := unix.SockFilter{Code: jump, K: c.value, Jf: left}
			switch c.is {
			case unequal:
				test.Jt, test.Jf = left, 0
			case anyOf:
				test.Code = bits
			}
			filter = append(filter, unix.SockFilter{Code: load, K: arguments + 8*uint32(c.argument)}, test)
		}
		filter = append(filter, unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(r.errno)})
	}
	return append(filter, unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW})
}

// install makes the kernel apply a filter to all threads of this process and to what they start. The kernel accepts it
// only from a process that cannot gain privileges, as NO_NEW_PRIVS says.
func install(refusals []refusal) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up privileges: %w", err)
	}
	filter := assemble(refusals)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("refusing system calls: %w", errno)
	}
	return nil
}
