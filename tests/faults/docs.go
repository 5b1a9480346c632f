package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/check"
)

// figures rewrites the text between two comments in docs/faults.md, so that the figures there come from a run.
func (o order) figures(section string, write func(b *bytes.Buffer)) error {
	if !o.docs {
		return nil
	}
	file := filepath.Join(sources(), "..", "..", "docs", "faults.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	write(&b)
	out, err := splice(text, section, b.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, out, 0o644) //nolint:gosec // documentation is for everybody
}

// splice puts new text between the section's comments.
func splice(text []byte, section string, new []byte) ([]byte, error) {
	begin, end := []byte("<!-- "+section+": begin -->\n"), []byte("<!-- "+section+": end -->")
	from, to := bytes.Index(text, begin), bytes.Index(text, end)
	if from < 0 || to < from {
		return nil, fmt.Errorf("there are no comments <!-- %s: begin --> and <!-- %s: end -->", section, section)
	}
	from += len(begin)
	return slices.Concat(text[:from], new, text[to:]), nil
}

// provenance writes what made the figures below it.
func provenance(b *bytes.Buffer, args []string) {
	fmt.Fprintf(b, "Made by `go run -C tests/faults . %s` on %s, %s/%s, %d processors, %s.\n",
		strings.Join(args, " "), time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		runtime.Version())
}

// pointFigures writes the table of a run of the points, with a line for each group.
func pointFigures(b *bytes.Buffer, all []outcome, took time.Duration) {
	failed := 0
	for _, o := range all {
		if o.failed() {
			failed++
		}
	}
	fmt.Fprintf(b, "%d runs in %s, %d failed.\n\n| what breaks | points | runs | failed | recovery, median | longest | "+
		"what recovers |\n|---|--:|--:|--:|--:|--:|---|\n", len(all), took.Round(time.Second), failed)
	for _, g := range groups() {
		played := map[string]bool{}
		s := statsOf(all, func(o outcome) bool {
			in := slices.ContainsFunc(g.points, func(p point) bool { return p.name == o.point })
			if in {
				played[o.point] = true
			}
			return in
		})
		if s.runs > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %s | %s | %s |\n", g.name, len(played), s.runs, s.failed, s.seconds(s.median),
				s.seconds(s.longest), g.recovers)
		}
	}
}

// stats holds the figures of a number of runs. The times are those of good runs: a failed run has no known recovery
// time.
type stats struct {
	runs, failed    int
	median, longest time.Duration
}

func statsOf(all []outcome, of func(outcome) bool) stats {
	var s stats
	var times []time.Duration
	for _, o := range all {
		if !of(o) {
			continue
		}
		if s.runs++; o.failed() {
			s.failed++
		} else {
			times = append(times, o.recovery)
		}
	}
	if len(times) > 0 {
		slices.Sort(times)
		s.median, s.longest = times[len(times)/2], times[len(times)-1]
	}
	return s
}

// seconds formats one of the times; "–" if no run was good.
func (s stats) seconds(d time.Duration) string {
	if s.runs == s.failed {
		return "–"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// mutantFigures writes the table of a run of the mutants.
func mutantFigures(b *bytes.Buffer, list []mutant, outcomes []outcome) {
	controls := 0
	fmt.Fprint(b, "\n| broken promise | at the point | noticed by |\n|---|---|---|\n")
	for i, m := range list {
		if m.control() && m.asItShould(outcomes[i]) {
			controls++
			continue
		}
		noticed := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(check.Invariants(outcomes[i].violations))), ", "),
			"[]")
		if noticed == "" && m.says != "" {
			noticed = "the schedule: " + strings.TrimSpace(m.says)
		}
		if !m.asItShould(outcomes[i]) {
			noticed += " (WRONG)"
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", m.name, m.point, noticed)
	}
	fmt.Fprintf(b, "\n%d controls passed.\n", controls)
}
