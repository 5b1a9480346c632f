package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/faults/leakcheck"
	"github.com/everturn/everturn/workflows/turn"
)

// judgedFrom is how long a soak must be for its memory to be judged, and for every fault to have occurred: in a shorter
// soak caches are not full and the heap has not found its size when a third of it is over.
const judgedFrom = 15 * time.Minute

// report prints the result of a soak and returns whether it was good.
func (s *soak) report(out io.Writer, l check.Ledgers, violations []check.Violation) bool {
	took := s.order.soak
	fmt.Fprintf(out, "\nturns       %d, %.1f a second; half of them within %.1f s, 99 in 100 within %.1f s, the longest "+
		"%.1f s\n",
		len(s.load.took), float64(len(s.load.took))/took.Seconds(), s.load.quantile(0.5).Seconds(),
		s.load.quantile(0.99).Seconds(), s.load.quantile(1).Seconds())
	fmt.Fprintf(out, "            %s\n", counted(s.load.kinds))
	fmt.Fprintf(out, "ledgers     %s\n", counted(tally(l)))
	hit := s.blows(out)
	fmt.Fprintf(out, "violations  %d\n", len(violations))
	for _, v := range violations {
		fmt.Fprintln(out, "            "+v.String())
	}
	s.table(out)
	steady := s.verdicts(out)
	gone := rests(out, s.before, s.after)
	return hit && steady && gone && len(violations) == 0 && len(s.load.took) > 0
}

// blows prints what was broken and returns whether that is enough: each kind at least once, if the soak was long
// enough.
func (s *soak) blows(out io.Writer) bool {
	fmt.Fprintf(out, "broken      %s\n", counted(s.struck))
	if len(s.missed) > 0 {
		fmt.Fprintf(out, "missed      %s\n", counted(s.missed))
	}
	spared := s.spared()
	if len(spared) > 0 {
		fmt.Fprintf(out, "NEVER HIT   %s\n", strings.Join(spared, ", "))
	}
	return len(spared) == 0 || s.order.soak < judgedFrom
}

// counted formats names with numbers, in order.
func counted(m map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%d %s", m[name], name))
	}
	return strings.Join(out, ", ")
}

// tally counts the evidence in the ledgers that the faults have hit turns.
func tally(l check.Ledgers) map[string]int {
	out := map[string]int{"requests to the provider": len(l.Requests), "histories": len(l.Histories)}
	for _, s := range l.Sessions {
		for _, line := range s.Lines {
			switch {
			case line.Call != nil && line.Call.Outcome == turn.OutcomeUnknown:
				out["calls of unknown outcome"]++
			case line.Call != nil:
				out["calls that are settled"]++
			case line.Inference != nil && line.Inference.Attempt > 1:
				out["inferences begun again"]++
			case line.Turn != nil && line.Turn.State == turn.StateCancelled:
				out["turns cancelled"]++
			}
		}
	}
	return out
}

// table prints resident memory over time.
func (s *soak) table(out io.Writer) {
	step := s.order.soak / 6
	fmt.Fprintf(out, "\n%-10s %12s %12s %12s %12s %12s %12s\n", "from", "worker MB", "observed MB", "live heap MB",
		"goroutines", "files", "server MB")
	for from := time.Duration(0); from < s.order.soak; from += step {
		low := func(samples []leakcheck.Sample, value leakcheck.Value) float64 {
			return leakcheck.Line(leakcheck.Lows(between(samples, s.began.Add(from), step), 0, step, value)).Mean
		}
		resident := func(v leakcheck.Sample) float64 { return float64(v.Resident) / mb }
		fmt.Fprintf(out, "%-10s %12.1f %12.1f %12.1f %12.0f %12.0f %12.1f\n", from, low(s.watch.worker, resident),
			low(s.watch.own, resident),
			low(s.watch.own, func(v leakcheck.Sample) float64 { return float64(v.LiveHeap) / mb }),
			low(s.watch.own, func(v leakcheck.Sample) float64 { return float64(v.Goroutines) }),
			low(s.watch.worker, func(v leakcheck.Sample) float64 { return float64(v.Files) }), low(s.watch.temporal, resident))
	}
}

func between(samples []leakcheck.Sample, from time.Time, d time.Duration) []leakcheck.Sample {
	return slices.DeleteFunc(slices.Clone(samples),
		func(v leakcheck.Sample) bool { return v.At.Before(from) || !v.At.Before(from.Add(d)) })
}

// verdicts prints the trend of each measure and returns whether none grows.
func (s *soak) verdicts(out io.Writer) bool {
	fmt.Fprintf(out, "\nafter %s of warm-up, by the lowest of each %s (%s, %d processors)\n", s.watch.warmUp(),
		s.watch.window(), runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(out, "%-10s %-14s %10s %12s %10s %10s  %s\n", "process", "", "mean", "a minute", "growth", "allowed",
		"verdict")
	steady := true
	for _, m := range s.watch.measures() {
		line, allowed, good := s.watch.trend(m)
		verdict := "steady"
		switch {
		case allowed < 0:
			verdict = "shown only"
		case s.order.soak < judgedFrom:
			verdict = "too short to judge"
		case !good:
			verdict, steady = "GROWS", false
		}
		limit := "-"
		if allowed >= 0 {
			limit = fmt.Sprintf("%.1f", allowed/m.unit)
		}
		fmt.Fprintf(out, "%-10s %-14s %10.1f %12.3f %10.2f %10s  %s\n", m.process, m.name, line.Mean/m.unit,
			line.PerMin/m.unit, line.Growth()/m.unit, limit, verdict)
	}
	return steady
}
