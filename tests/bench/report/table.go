package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes the measures for people.
func Table(w io.Writer, measures []Measure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	scenario := ""
	for _, m := range measures {
		if m.Scenario != scenario {
			scenario = m.Scenario
			fmt.Fprintf(t, "\n%s\tturns\tp50 ms\tp95\tp99\tturns/s\tworker CPU ms\tserver CPU ms\tpeak MB\tevents\thistory KB\trows\tjournal KB\tto model KB\terrors\t\n", scenario)
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", m.Arm, m.Turns,
			m.Latency.P50, m.Latency.P95, m.Latency.P99, m.TurnsPerSecond, m.WorkerCPU, m.ServerCPU, float64(m.PeakBytes)/(1<<20),
			m.Events, float64(m.HistoryBytes)/1024, m.JournalRows, m.JournalBytes/1024, m.ModelBytes/1024, m.Errors)
	}
	return t.Flush()
}
