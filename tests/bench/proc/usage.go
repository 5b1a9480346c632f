package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every Linux that Go runs on (man 5 proc).
const tick = 10 * time.Millisecond

// CPU is the CPU time, user and system, that a process has used, to 10 ms.
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	// The name in parentheses may hold anything; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("reading the CPU time: /proc/<pid>/stat has too few fields")
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// PeakBytes is the peak of a process's resident memory (VmHWM).
func PeakBytes(pid int) (int64, error) { return status(pid, "VmHWM:") }

// ResidentBytes is a process's resident memory (VmRSS).
func ResidentBytes(pid int) (int64, error) { return status(pid, "VmRSS:") }

// status reads a figure of /proc/<pid>/status.
func status(pid int, name string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("reading the memory: /proc/<pid>/status has no %s", strings.TrimSuffix(name, ":"))
}

// Find returns the process whose arguments satisfy the condition. It fails if none or several do.
func Find(ok func(argv []string) bool) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	var found []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		if ok(strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return 0, err
			}
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("looking for a process: %d fit", len(found))
	}
	return found[0], nil
}
