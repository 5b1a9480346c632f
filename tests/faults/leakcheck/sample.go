package leakcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Sample is what a process holds at one moment. Goroutines and LiveHeap are 0 if the process does not report them.
type Sample struct {
	At       time.Time `json:"at"`
	PID      int       `json:"pid"`
	Resident int64     `json:"resident"` // bytes
	Files    int       `json:"files"`
	Threads  int       `json:"threads"`
	Children int       `json:"children"`
	// CPU is the processor time that the process has used since its start, without its children's.
	CPU        time.Duration `json:"cpu,omitempty"`
	Goroutines int           `json:"goroutines,omitempty"`
	LiveHeap   int64         `json:"live_heap,omitempty"` // bytes in use after the last collection
}

// Of samples a process.
func Of(pid int) (Sample, error) {
	s := Sample{At: time.Now(), PID: pid}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, fmt.Errorf("sampling process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // other fields are not read
		switch name {
		case "VmRSS":
			s.Resident = n << 10
		case "Threads":
			s.Threads = int(n)
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, fmt.Errorf("counting the files of process %d: %w", pid, err)
	}
	s.Files, s.Children = len(files), len(Children(pid))
	s.CPU, err = cpuOf(pid)
	return s, err
}

// tick is the unit of processor time in /proc/PID/stat: USER_HZ, which Linux fixes at 100 on all its common ports.
const tick = 10 * time.Millisecond

// cpuOf returns the user and system time of a process: fields 14 and 15 of its stat, see proc_pid_stat(5).
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(b), ") ") // field 3 and up; the name before it may contain blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading the processor time of process %d: %d fields", pid, len(fields))
	}
	user, uerr := strconv.ParseInt(fields[11], 10, 64)
	system, serr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(uerr, serr)
}

// Children returns the living children of a process. A process that has ended has none.
func Children(pid int) []int {
	var out []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
