package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Calls is the cost of one tool call over MCP, made in several ways in one run.
type Calls struct {
	Machine Machine
	Bytes   int // size of the tool's result
	Costs   []CallCost
}

// CallCost gives the latency of calls and the CPU time per call, in milliseconds; a CPU time is 0 if it was not
// measured separately.
type CallCost struct {
	What           string
	Samples        int
	Latency        Spread
	CPU, ServerCPU float64 // of the calling process, and of Temporal's server
}

// rows returns the table. The other costs are compared with the first one.
func (c Calls) rows() [][]string {
	out := [][]string{{"a call", "samples", "p50 ms", "p95 ms", "added p50", "caller's CPU ms", "added CPU",
		"Temporal's CPU ms"}}
	for i, one := range c.Costs {
		row := []string{one.What, fmt.Sprint(one.Samples), fmt.Sprintf("%.2f", one.Latency.P50),
			fmt.Sprintf("%.2f", one.Latency.P95), "", "", "", ""}
		if i > 0 {
			row[4] = fmt.Sprintf("%+.2f", one.Latency.P50-c.Costs[0].Latency.P50)
		}
		if one.CPU != 0 {
			row[5] = fmt.Sprintf("%.2f", one.CPU)
		}
		if one.CPU != 0 && i > 0 {
			row[6] = fmt.Sprintf("%+.2f", one.CPU-c.Costs[0].CPU)
		}
		if one.ServerCPU != 0 {
			row[7] = fmt.Sprintf("%.2f", one.ServerCPU)
		}
		out = append(out, row)
	}
	return out
}

// CallsTable writes the run as text for a terminal.
func CallsTable(w io.Writer, c Calls) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\nOne call over MCP, with a result of %d bytes\n", c.Bytes)
	for _, row := range c.rows() {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

const (
	callsBegin = "<!-- bench-calls:begin -->\n"
	callsEnd   = "<!-- bench-calls:end -->"
)

// InsertCalls puts the run between its two marks in a document.
func InsertCalls(document []byte, c Calls) ([]byte, error) {
	return splice(document, callsBegin, callsEnd, func(w io.Writer) {
		fmt.Fprintf(w, "Run of %s.\n\n", c.Machine)
		for i, row := range c.rows() {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
		fmt.Fprintln(w)
	})
}
