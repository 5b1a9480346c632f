package report

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine describes the date and the machine of a run.
type Machine struct {
	Date   string `json:"date"` // UTC
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	System string `json:"system"`
	Go     string `json:"go"`
	Load   string `json:"load"` // the load averages before the run
}

// ThisMachine describes the current machine.
func ThisMachine() Machine {
	m := Machine{Date: time.Now().UTC().Format("2006-01-02 15:04"), Cores: runtime.NumCPU(), Go: runtime.Version(),
		System: runtime.GOOS + "/" + runtime.GOARCH, CPU: "unknown", Load: "unknown"}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.CPU = strings.Trim(name, " \t\n:")
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(b)), "-")
		m.System += ", Linux " + version
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return m
}

// String returns a one-line description.
func (m Machine) String() string {
	return m.Date + " UTC; " + m.CPU + ", " + plural(m.Cores, "core") + "; " + m.System + "; " + m.Go +
		"; load before the run " + m.Load
}
