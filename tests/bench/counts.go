package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/tests/bench/report"
)

// counts checks what does not depend on the machine: the number of events in a turn's history, the number of
// inferences, and that the report has every arm of the scenarios.
func counts(r report.Result, of []scenario) []report.Finding {
	var out []report.Finding
	add := func(p report.Part, format string, args ...any) {
		out = append(out, report.Finding{Severity: report.Fail, Scenario: p.Scenario, Measure: "counts",
			What: p.Scenario + ": " + fmt.Sprintf(format, args...)})
	}
	for _, p := range r.Parts {
		sc := of[slices.IndexFunc(of, func(sc scenario) bool { return sc.name == p.Scenario })]
		if len(p.Measures) != len(sc.arms) {
			add(p, "%d arms were measured and %d should have been", len(p.Measures), len(sc.arms))
		}
		if sc.replayed && len(p.Replays) == 0 {
			add(p, "nothing was replayed")
		}
		for _, m := range p.Measures {
			switch {
			case m.Doom == "":
				countArm(sc.spec, m, func(format string, args ...any) { add(p, m.Arm+": "+format, args...) })
			case !expected(m.Doom):
				add(p, "%s was to break on a limit of Temporal's and broke otherwise: %s", m.Arm, m.Doom)
			}
		}
	}
	return out
}

func countArm(sp spec, m report.Measure, add func(format string, args ...any)) {
	if most := events(sp, m); m.Events > most || m.Events == 0 {
		add("a turn has %d history events; %d are its budget", m.Events, most)
	}
	if m.Latency.P50 <= 0 || m.PeakBytes == 0 || m.TurnsPerSecond <= 0 || m.HistoryBytes == 0 {
		add("figures are missing")
	}
	if kind(m.Kind) == everturn && (m.JournalRows == 0 || m.ModelBytes == 0) {
		add("nothing came to the journal, or to the model")
	}
	if want := float64(inferences(sp)); kind(m.Kind) != floorish && m.Steps != want {
		add("the model was asked %.2f times a turn; it should be %.0f", m.Steps, want)
	}
}

// inferences returns the expected number of inferences of one turn.
func inferences(sp spec) int {
	if sp.Bad {
		return sp.Hops + 2
	}
	return sp.Hops + 1
}

// events returns a turn's budget: six events for each activity with its workflow task, one for each local activity. A
// turn of Everturn begins and ends with a local activity and upserts search attributes once. Continue-as-new starts a
// new history, which has fewer events.
func events(sp spec, m report.Measure) int64 {
	calls, each := sp.Hops*sp.Calls, 6
	if kind(m.Kind) != cookbk && lane(m.Lane) != laneMCP {
		each = 1
	}
	n := 5 + 6*inferences(sp) + each*calls
	if kind(m.Kind) == everturn {
		n += 3
	}
	if kind(m.Kind) == floorish && sp.Bad {
		n += each
	}
	return int64(n)
}

// limits are the texts of Temporal's errors about sizes.
var limits = []string{"exceeds limit", "larger than max", "exceeded the maximum", "too large",
	"terminated"} // Temporal terminates a workflow at 50 MB of history

// expected reports whether an arm failed on one of these limits.
func expected(doom string) bool {
	return slices.ContainsFunc(limits, func(l string) bool { return strings.Contains(doom, l) })
}
