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

// rounds bounds how often ReapOrphans scans the processes. A later round finds a process that forked during an earlier
// one.
const rounds = 5

// owner returns the mark of this program: its PID, its start time, because PIDs are reused, and its session. It is
// empty if /proc cannot be read.
var owner = sync.OnceValue(func() string {
	self, err := readStat(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", os.Getpid(), self.started, self.session)
})

// ReapOrphans kills the processes that children of dead programs left behind, and returns how many it killed. When a
// program is killed, the kernel also kills the leaders of its children's groups, but not the processes that those
// started. ReapOrphans identifies them by the mark in their environment. It spares a process that has left its
// program's session, because it did so on purpose, one in another PID namespace, where PIDs mean something else, and
// one that hides its environment.
func ReapOrphans() int {
	killed := 0
	for range rounds {
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

// reapOrphan kills the process if it is an orphan. It opens a pidfd and checks again, so that the process checked is
// the one that is killed.
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

// orphaned reports whether a process carries the mark of a program that no longer runs.
func orphaned(pid int) bool {
	number, started, session, ok := mark(pid)
	if !ok || !sameNamespace(pid) {
		return false
	}
	it, err := readStat(pid)
	if err != nil || it.state == "Z" || it.session != session {
		return false
	}
	by, err := readStat(number)
	return errors.Is(err, os.ErrNotExist) || err == nil && (by.started != started || by.state == "Z")
}

// mark returns the mark in the process's environment, which identifies the program that started it.
func mark(pid int) (number int, started uint64, session int, ok bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0, 0, 0, false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		value, found := bytes.CutPrefix(kv, []byte(markVariable+"="))
		if !found {
			continue
		}
		n, err := fmt.Sscanf(string(value), "%d.%d.%d", &number, &started, &session)
		return number, started, session, err == nil && n == 3 && number > 0
	}
	return 0, 0, 0, false
}

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
	session, err := strconv.Atoi(fields[3])
	started, err2 := strconv.ParseUint(fields[19], 10, 64)
	return stat{state: fields[0], session: session, started: started}, errors.Join(err, err2)
}
