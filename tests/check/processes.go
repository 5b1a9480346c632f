package check

import (
	"bytes"
	"maps"
	"slices"
)

const (
	// goroutineSlack is how many more goroutines a worker may have once everything is closed than before it started: those
	// of the runtime and the standard library that never end.
	goroutineSlack = 2
	// peakLimit bounds a worker's resident memory, in bytes: several times what the schedules need.
	peakLimit = 512 << 20
)

// processes checks I7.
func (c *checker) processes() {
	for _, p := range c.Processes {
		if p.Orphan {
			c.breaks(I7, "process %d outlived its worker: %s", p.PID, p.Command)
		}
		if p.GoroutinesAfter > p.GoroutinesBefore+goroutineSlack {
			c.breaks(I7, "worker %d had %d goroutines before and %d after:\n%s", p.PID, p.GoroutinesBefore, p.GoroutinesAfter,
				p.Stacks)
		}
		if p.PeakBytes > peakLimit {
			c.breaks(I7, "worker %d took %d MB", p.PID, p.PeakBytes>>20)
		}
	}
}

// secrets checks I8: no canary in any sink.
func (c *checker) secrets() {
	for i, canary := range c.Run.Canaries {
		for _, name := range slices.Sorted(maps.Keys(c.Sinks)) {
			if canary != "" && bytes.Contains(c.Sinks[name], []byte(canary)) {
				c.breaks(I8, "canary %d is in %s", i+1, name)
			}
		}
	}
}
