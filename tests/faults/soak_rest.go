package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

// rest is what a soak's survivors hold while nothing is under way. Under load goroutines and files come and go, and a
// few that leak are hidden among them; at rest they show.
type rest struct {
	// Open files without the journal's, whose connections for readers are opened as needed and kept.
	worker, observed int
	goroutines       int // of the observed worker, without those of turns
	// Goroutines of turns that the SDK keeps in its cache. A worker does not learn that a turn ended elsewhere while the
	// worker was frozen or cut off; such a turn leaves the cache when newer ones need its place, of which there are
	// a hundred.
	turns int
}

const (
	// restConnections are the connections to the provider that HTTP keeps for a while after the last answer.
	restConnections = 6
	// restFiles and restGoroutines are how many more a survivor may hold after the soak than before it.
	restFiles, restGoroutines = restConnections, 2 * restConnections
)

// look counts what the survivors hold now.
func (w *watch) look(ctx context.Context) (r rest, err error) {
	if r.worker, err = openFiles(w.survivor.pid()); err != nil {
		return r, err
	}
	if r.observed, err = openFiles(w.observed.pid()); err != nil {
		return r, err
	}
	file := w.profile()
	err = reach(ctx, "the stacks of worker "+strconv.Itoa(w.observed.pid()), func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if err != nil {
		return r, err
	}
	b, err := os.ReadFile(file)
	r.goroutines, r.turns = goroutines(string(b))
	return r, err
}

// openFiles counts the open files of a process, without its journal's.
func openFiles(pid int) (int, error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err == nil && len(links) == 0 {
		_, err = leakcheck.Of(pid) // its error says what is wrong with the process
	}
	n := 0
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && !strings.HasPrefix(filepath.Base(to), "journal.db") {
			n++
		}
	}
	return n, err
}

// goroutines counts the goroutines of turns, and all others, in the text of a profile.
func goroutines(profile string) (others, turns int) {
	for stack := range strings.SplitSeq(profile, "\n\n") {
		for line := range strings.Lines(stack) {
			count, _, found := strings.Cut(line, " @ ")
			n, err := strconv.Atoi(count)
			switch {
			case !found || err != nil:
			case strings.Contains(stack, "internal.(*coroutineState)"):
				turns += n
			default:
				others += n
			}
		}
	}
	return others, turns
}

// rests prints what the survivors held before and after the soak and returns whether the growth is within its bounds.
func rests(out io.Writer, before, after rest) bool {
	fmt.Fprintf(out, "\nat rest, with nothing under way\n%-10s %-14s %10s %10s %10s  %s\n", "process", "", "before",
		"after", "allowed", "verdict")
	good := true
	for _, m := range []struct {
		process, name         string
		before, after, growth int
	}{
		{"worker", "files", before.worker, after.worker, restFiles},
		{"observed", "files", before.observed, after.observed, restFiles},
		{"observed", "goroutines", before.goroutines, after.goroutines, restGoroutines},
	} {
		verdict := "all gone"
		switch {
		case m.after == 0:
			verdict, good = "NOT SEEN", false
		case m.after > m.before+m.growth:
			verdict, good = "LEFT OVER", false
		}
		fmt.Fprintf(out, "%-10s %-14s %10d %10d %10d  %s\n", m.process, m.name, m.before, m.after, m.before+m.growth, verdict)
	}
	fmt.Fprintf(out, "%-10s %-14s %10d %10d %10s  %s\n", "observed", "of turns", before.turns, after.turns, "-",
		"shown only: the cache's")
	return good
}
