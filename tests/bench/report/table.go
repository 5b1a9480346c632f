package report

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes the run for people.
func Table(w io.Writer, r Result) error {
	fmt.Fprintln(w, r.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range r.Parts {
		fmt.Fprintf(t, "\n%s\tturns\tp50 ms\tp95\tp99\tturns/s\tworker CPU ms\tserver CPU ms\tpeak MB\tevents\thistory KB\trows\tjournal KB\tto model KB\terrors\t\n", p.Scenario)
		for _, m := range p.Measures {
			if m.Doom != "" {
				fmt.Fprintf(t, "%s\t–\t%.100s\t\n", m.Arm, m.Doom)
				continue
			}
			fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", m.Arm, m.Turns,
				m.Latency.P50, m.Latency.P95, m.Latency.P99, m.TurnsPerSecond, m.WorkerCPU, m.ServerCPU, mb(m.PeakBytes),
				m.Events, float64(m.HistoryBytes)/1024, m.JournalRows, m.JournalBytes/1024, m.ModelBytes/1024, m.Errors)
		}
	}
	if err := errors.Join(t.Flush(), replayTable(w, r), wordTable(w, r)); err != nil || r.Smoke {
		return err // so few turns have no ratios to speak of
	}
	return errors.Join(ratioTable(w, r), aimTable(w, r))
}

func ratioTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nratios in this run\tarm\tto\tp50\tp95\tturns/s\tworker CPU\tall CPU\tmemory\t\n")
	for _, q := range r.Ratios() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", q.Scenario, q.Arm, q.To, q.P50, q.P95, q.TurnsPerSecond, q.WorkerCPU, q.TotalCPU, q.Memory)
	}
	return t.Flush()
}

func replayTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nreplay\tarm\tevents\thistory KB\tms\tms a step\tpeak MB\t\n")
	for _, p := range r.Parts {
		for _, one := range p.Replays {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.2f\t%.3f\t%.0f\t\n", p.Scenario, one.Arm, one.Events, float64(one.HistoryBytes)/1024, one.Milliseconds, one.PerStep, mb(one.PeakBytes))
		}
	}
	return t.Flush()
}

func wordTable(w io.Writer, r Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfirst word\tp50 ms\tp95\tadded\t\n")
	for _, p := range r.Parts {
		for _, f := range p.FirstWords {
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%+.0f\t\n", f.From, f.Latency.P50, f.Latency.P95, f.Added)
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
