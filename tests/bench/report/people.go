package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// People is a run of the scenarios with waiting: turns that wait for a user, and users who wait for a turn.
type People struct {
	Machine Machine  `json:"machine"` // date and machine of the latest run
	Waiting Waiting  `json:"waiting,omitzero"`
	Streams []Waited `json:"streams,omitempty"`
	Stops   []Waited `json:"stops,omitempty"`
}

// Waiting is the cost of turns that wait for a user, all on one worker.
type Waiting struct {
	Turns   int     `json:"turns"`
	Seconds float64 `json:"seconds"` // until all of them waited
	// IdleBytes is the worker's resident memory before the first turn, WaitingBytes is the same when all turns wait and
	// the worker is idle, and PeakBytes is the maximum.
	IdleBytes    int64    `json:"idle_bytes"`
	WaitingBytes int64    `json:"waiting_bytes"`
	PeakBytes    int64    `json:"peak_bytes"`
	Events       int64    `json:"events"` // in the history of a waiting turn
	HistoryBytes int64    `json:"history_bytes"`
	JournalBytes float64  `json:"journal_bytes"` // per turn
	Woken        []Waited `json:"woken"`         // from the user's decision to the turn's next output
}

// Waited is the distribution of one kind of waiting time, in milliseconds.
type Waited struct {
	For     string  `json:"for"`
	Samples int     `json:"samples"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
	// AimP50, AimP95, AimP99 and AimMax are upper bounds; 0 means that there is none.
	AimP50 float64 `json:"aim_p50,omitempty"`
	AimP95 float64 `json:"aim_p95,omitempty"`
	AimP99 float64 `json:"aim_p99,omitempty"`
	AimMax float64 `json:"aim_max,omitempty"`
}

// Wait summarizes measured waiting times.
func Wait(what string, all []time.Duration) Waited {
	w := Waited{For: what, Samples: len(all)}
	if len(all) > 0 {
		s := Quantiles(all)
		w.P50, w.P95, w.P99, w.Max = s.P50, s.P95, s.P99, float64(slices.Max(all))/float64(time.Millisecond)
	}
	return w
}

// aims returns the aims in words, and the verdict.
func (w Waited) aims() (aim, verdict string) {
	var parts []string
	met := w.Samples > 0
	for _, a := range []struct {
		name       string
		is, atMost float64
	}{{"p50", w.P50, w.AimP50}, {"p95", w.P95, w.AimP95}, {"p99", w.P99, w.AimP99}, {"max", w.Max, w.AimMax}} {
		if a.atMost > 0 {
			parts = append(parts, fmt.Sprintf("%s ≤ %g ms", a.name, a.atMost))
			met = met && a.is <= a.atMost
		}
	}
	return strings.Join(parts, ", "), judged(len(parts) > 0, met)
}

func judged(set, met bool) string {
	switch {
	case !set:
		return "–"
	case met:
		return "met"
	}
	return "missed"
}

// waitingMemory is the aim for the resident memory that 10,000 waiting turns add to a worker, in bytes.
const waitingMemory = 20 << 20

// tables returns the run's tables, each with a title and rows. The first row is the header.
func (p People) tables() (out []table) {
	if n := p.Waiting; n.Turns > 0 {
		over := n.WaitingBytes - n.IdleBytes
		out = append(out, table{"Turns that wait for people", [][]string{
			{"turns on one worker", "all waited after", "worker idle", "with them", "over idle", "aim", "", "peak",
				"events a turn", "history", "journal"},
			{fmt.Sprint(n.Turns), fmt.Sprintf("%.0f s", n.Seconds), fmt.Sprintf("%.1f MB", mb(n.IdleBytes)),
				fmt.Sprintf("%.1f MB", mb(n.WaitingBytes)),
				fmt.Sprintf("%+.1f MB", mb(over)), "≤ 20 MB", judged(true, over <= waitingMemory),
				fmt.Sprintf("%.1f MB", mb(n.PeakBytes)), fmt.Sprint(n.Events),
				fmt.Sprintf("%.1f KB", float64(n.HistoryBytes)/1024), fmt.Sprintf("%.1f KB", n.JournalBytes/1024)},
		}}, table{"From a person's word to the turn's going on", rows(n.Woken)})
	}
	if len(p.Streams) > 0 {
		out = append(out, table{"From the provider to a terminal in another process", rows(p.Streams)})
	}
	if len(p.Stops) > 0 {
		out = append(out, table{"From a stop to the turn's end", rows(p.Stops)})
	}
	return out
}

type table struct {
	title string
	rows  [][]string
}

func rows(list []Waited) [][]string {
	out := [][]string{{"what", "samples", "p50 ms", "p95 ms", "p99 ms", "max ms", "aim", ""}}
	for _, w := range list {
		aim, verdict := w.aims()
		out = append(out, []string{w.For, fmt.Sprint(w.Samples), fmt.Sprintf("%.1f", w.P50), fmt.Sprintf("%.1f", w.P95),
			fmt.Sprintf("%.1f", w.P99), fmt.Sprintf("%.1f", w.Max), aim, verdict})
	}
	return out
}

// PeopleTable writes the run as text for a terminal.
func PeopleTable(w io.Writer, p People) error {
	fmt.Fprintln(w, p.Machine)
	for _, t := range p.tables() {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "\n%s\n", t.title)
		for _, row := range t.rows {
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// PeoplePage writes the run for the documentation.
func PeoplePage(w io.Writer, p People) {
	fmt.Fprintf(w, "Run of %s.\n", p.Machine)
	for _, t := range p.tables() {
		fmt.Fprintf(w, "\n**%s**\n\n", t.title)
		for i, row := range t.rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
	}
	fmt.Fprintln(w)
}
