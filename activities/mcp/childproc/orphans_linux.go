package childproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxScans bounds how often ReapOrphans scans the processes. A later scan finds the processes that an orphan has forked
// during an earlier one.
const maxScans = 5

// ownMark returns the mark of this program: its PID and, because PIDs are reused, its start time. It is empty if /proc
// cannot be read.
var ownMark = sync.OnceValue(func() string {
	self, err := readStat(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", os.Getpid(), self.started)
})

// ReapOrphans kills the orphans of programs that no longer run, and returns how many it killed. When a program is
// killed, the kernel also kills its children, which lead sessions of their own, but not the processes that these have
// started: the orphans. ReapOrphans finds them by the mark in their environment. It spares three kinds of process: a
// process in a session whose leader runs, because it has left its server's session on purpose; a process in another PID
// namespace, because PIDs have another meaning there; and a process whose environment cannot be read.
func ReapOrphans() int {
	killed := 0
	for range maxScans {
		n := 0
		dirs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil { // the pattern is valid
			return killed
		}
		for _, dir := range dirs {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && reapOrphan(pid) {
				n++
			}
		}
		if killed += n; n == 0 {
			break
		}
	}
	return killed
}

// reapOrphan kills the process with this PID if it is an orphan, and reports whether it did. It checks again after it
// has opened a pidfd, because the PID may have been reused since the first check. From then on the pidfd cannot refer
// to another process.
func reapOrphan(pid int) bool {
	if !orphaned(pid) {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return orphaned(pid) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// orphaned reports whether a running process carries the mark of a program that no longer runs, and is in a session
// whose leader no longer runs.
func orphaned(pid int) bool {
	ownerPID, started, ok := readMark(pid)
	if !ok || !sameNamespace(pid) {
		return false
	}
	process, err := readStat(pid)
	if err != nil || process.state == "Z" {
		return false
	}
	owner, ownerErr := readStat(ownerPID)
	reused := ownerErr == nil && owner.started != started // another process now has the owner's PID
	leader, leaderErr := readStat(process.session)        // the PID of a session's leader is not reused while the session exists
	return (hasEnded(owner, ownerErr) || reused) && hasEnded(leader, leaderErr)
}

// hasEnded reports whether a process has ended, by the result of readStat.
func hasEnded(s stat, err error) bool {
	return errors.Is(err, os.ErrNotExist) || err == nil && s.state == "Z"
}

// readMark returns the mark in a process's environment: the PID and start time (in clock ticks since boot) of the
// program that started it. ok is false if there is no valid mark, or the environment cannot be read.
func readMark(pid int) (ownerPID int, started uint64, ok bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, 0, false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		value, found := bytes.CutPrefix(kv, []byte(markVariable+"="))
		if !found {
			continue
		}
		n, err := fmt.Sscanf(string(value), "%d.%d", &ownerPID, &started)
		return ownerPID, started, err == nil && n == 2 && ownerPID > 0
	}
	return 0, 0, false
}

// sameNamespace reports whether a process is in this program's PID namespace.
func sameNamespace(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/pid")
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return err == nil && err2 == nil && ours == theirs
}

// stat holds the fields of /proc/<pid>/stat that are needed (proc(5)).
type stat struct {
	state   string
	session int
	started uint64 // in clock ticks since boot
}

// readStat reads /proc/<pid>/stat. The error is os.ErrNotExist if there is no such process.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) { // the process ended between opening and reading
		err = os.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	// The name is in parentheses and may contain anything; the fields after it have no spaces.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("reading /proc/%d/stat: it has %d fields", pid, len(fields))
	}
	// fields begins with field 3 of proc(5), the state. Field 6 is the session, and field 22 the start time.
	session, err := strconv.Atoi(fields[3])
	started, err2 := strconv.ParseUint(fields[19], 10, 64)
	return stat{state: fields[0], session: session, started: started}, errors.Join(err, err2)
}
