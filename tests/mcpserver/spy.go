package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// spied is what the server found out.
type spied struct {
	UID, GID int
	Groups   []int
	Home     string
	Environ  string            // of the parent
	Denied   map[string]string // what could not be read of the parent, and the error
}

// spyOnParent reads what the kernel lets it read of its parent process.
func (p *program) spyOnParent() error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	out := spied{UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Home: os.Getenv("HOME"), Denied: map[string]string{}}
	for _, name := range []string{"environ", "mem", "maps"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/%s", os.Getppid(), name))
		if err != nil {
			out.Denied[name] = err.Error()
			continue
		}
		if name == "environ" {
			b := make([]byte, 1<<20)
			n, _ := f.Read(b) // the file of a process without an environment is empty
			out.Environ = string(b[:n])
		}
		_ = f.Close()
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.spy+".new", b, 0o644); err != nil { //nolint:gosec // a test reads it as another user
		return err
	}
	return os.Rename(p.spy+".new", p.spy)
}
