package vitals

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Sample is what a process holds at a moment. Goroutines and LiveHeap are 0 where the process does not report them.
type Sample struct {
	At         time.Time `json:"at"`
	PID        int       `json:"pid"`
	Resident   int64     `json:"resident"` // bytes
	Files      int       `json:"files"`
	Threads    int       `json:"threads"`
	Children   int       `json:"children"`
	Goroutines int       `json:"goroutines,omitempty"`
	LiveHeap   int64     `json:"live_heap,omitempty"` // bytes that the last collection has found in use
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
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // others are not looked at
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
	return s, nil
}

// Children are the living children of a process. One that is gone has none.
func Children(pid int) []int {
	var out []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread is gone
		}
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
