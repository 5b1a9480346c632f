package report

import (
	"bytes"
	"fmt"
	"io"
)

// A run's tables stand between these marks in a document.
const (
	beginMark = "<!-- bench:begin -->\n"
	endMark   = "<!-- bench:end -->"
)

// Insert replaces the text between a document's marks with the figures that write prints.
func Insert(document []byte, r Result, write func(io.Writer, Result)) ([]byte, error) {
	return splice(document, beginMark, endMark, func(w io.Writer) { write(w, r) })
}

// The figures of a run with waiting users stand between these marks.
const (
	peopleBegin = "<!-- bench-people:begin -->\n"
	peopleEnd   = "<!-- bench-people:end -->"
)

// InsertPeople does the same as Insert for the figures of a run with waiting users.
func InsertPeople(document []byte, p People) ([]byte, error) {
	return splice(document, peopleBegin, peopleEnd, func(w io.Writer) { PeoplePage(w, p) })
}

func splice(document []byte, begin, end string, write func(io.Writer)) ([]byte, error) {
	head, rest, ok1 := bytes.Cut(document, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("the document has no lines %q and %q to put the tables between", begin, end)
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(begin)
	write(&b)
	b.WriteString(end)
	b.Write(tail)
	return b.Bytes(), nil
}

// Summary writes the overview for newcomers: a few scenarios, Everturn beside a plain loop.
func Summary(w io.Writer, r Result) {
	fmt.Fprintf(w, "Median of a turn against a plain Temporal agent loop that sends the whole conversation with each inference "+
		"and\nstores nothing else (%s of %s). [docs/benchmarks.md](docs/benchmarks.md) says how, and which aims are\nmissed:\n\n",
		plural(r.Machine.Cores, "core"), r.Machine.CPU)
	fmt.Fprint(w, "| turn | Everturn | plain loop | history of a turn |\n|---|---|---|---|\n")
	for _, row := range []struct{ name, scenario, lane string }{
		{"an answer, no tools", "answer", "local"},
		{"five calls over MCP", "five hops", "mcp"},
		{"five quick calls", "five hops", "local"},
		{"one call, 0.8 MB of conversation", "one hop on 0.8 MB", "local"},
		{"one call, 20 MB of conversation", "one hop on 20 MB", "local"},
	} {
		part := r.Part(row.scenario)
		ours, ok1 := part.Arm("everturn " + row.lane)
		theirs, ok2 := part.entry("cookbook " + row.lane)
		if !ok1 || !ok2 {
			continue
		}
		if theirs.Doom != "" {
			fmt.Fprintf(w, "| %s | %.0f ms | cannot do it | %.0f KB |\n", row.name, ours.Latency.P50, kb(ours))
			continue
		}
		fmt.Fprintf(w, "| %s | %.0f ms | %.0f ms | %.0f KB instead of %.0f |\n", row.name, ours.Latency.P50,
			theirs.Latency.P50, kb(ours), kb(theirs))
	}
}

func kb(m Measure) float64 { return float64(m.HistoryBytes) / 1024 }

// Page writes the aims and ratios of a run. The raw figures are in its JSON.
func Page(w io.Writer, r Result) {
	fmt.Fprintf(w, "Run of %s.\n\nAccepted because: %s\n\n", r.Machine, r.Reason)
	fmt.Fprint(w, "### Aims\n\n| | measured | aim | | why |\n|---|---|---|---|---|\n")
	for _, a := range Aims() {
		measured, aim, verdict := a.Judge(r)
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", a.What, measured, aim, verdict, a.Why)
	}
	fmt.Fprint(w, "\n### Ratios\n\n| scenario | arm | to | p50 | p95 | turns/s | worker CPU | worker and server CPU | "+
		"worker memory |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, q := range r.Ratios() {
		fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", q.Scenario, q.Arm, q.To, q.P50, q.P95,
			q.TurnsPerSecond, q.WorkerCPU, q.TotalCPU, q.Memory)
	}
	fmt.Fprintln(w)
}

// beginning returns the first 160 characters of a long error.
func beginning(s string) string { return fmt.Sprintf("%.160s", s) }
