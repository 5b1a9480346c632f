package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// columns are the headers of a measure's cells, beside the arm's name.
var columns = []string{"turns", "p50 ms", "p95", "p99", "turns/s", "worker CPU ms", "server CPU ms", "peak MB",
	"events",
	"history KB", "journal rows", "journal KB", "to model KB", "errors"}

// cells returns a measure's values for columns.
func (m Measure) cells() []string {
	one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return []string{fmt.Sprint(m.Turns), one(m.Latency.P50), one(m.Latency.P95), one(m.Latency.P99), one(m.TurnsPerSecond),
		one(m.WorkerCPU), one(m.ServerCPU), fmt.Sprintf("%.0f", mb(m.PeakBytes)), fmt.Sprint(m.Events),
		one(float64(m.HistoryBytes) / 1024), one(m.JournalRows), one(m.JournalBytes / 1024), one(m.ModelBytes / 1024),
		fmt.Sprint(m.Errors)}
}

// Table writes the run as text for a terminal.
func Table(w io.Writer, r Result) error {
	fmt.Fprintln(w, r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var doomed strings.Builder
	for _, p := range r.Parts {
		fmt.Fprintf(t, "\n%s\t%s\t\n", p.Scenario, strings.Join(columns, "\t"))
		for _, m := range p.Measures {
			if m.Doom != "" {
				fmt.Fprintf(t, "%s\t–\t\n", m.Arm)
				fmt.Fprintf(&doomed, "\n%s, %s: cannot do it: %s", p.Scenario, m.Arm, beginning(m.Doom))
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t\n", m.Arm, strings.Join(m.cells(), "\t"))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, doomed.String())
	if err := replayTable(w, r); err != nil || r.Smoke {
		return err // too few turns for meaningful ratios
	}
	return errors.Join(ratioTable(w, r), aimTable(w, r))
}

func ratioTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nratios in this run\tarm\tto\tp50\tp95\tturns/s\tworker CPU\tall CPU\tmemory\t\n")
	for _, q := range r.Ratios() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", q.Scenario, q.Arm, q.To, q.P50, q.P95,
			q.TurnsPerSecond, q.WorkerCPU, q.TotalCPU, q.Memory)
	}
	return t.Flush()
}

func replayTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nreplay\tarm\tevents\thistory KB\tms\tms a step\tpeak MB\t\n")
	for _, p := range r.Parts {
		for _, one := range p.Replays {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.2f\t%.3f\t%.0f\t\n", p.Scenario, one.Arm, one.Events,
				float64(one.HistoryBytes)/1024, one.Milliseconds, one.PerStep, mb(one.PeakBytes))
		}
	}
	return t.Flush()
}

func aimTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\naim\tmeasured\taim\tverdict\n")
	for _, a := range Aims() {
		measured, aim, verdict := a.Judge(r)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", a.What, measured, aim, verdict)
	}
	return t.Flush()
}
