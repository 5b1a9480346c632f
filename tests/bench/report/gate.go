package report

import (
	"fmt"
	"slices"
)

// Tolerance holds the regressions that a run may show against the accepted one: changes of ratios to the baselines in
// the same run, never of absolute figures. 0.07 permits 7 %. Zero: the ratio is not judged.
type Tolerance struct {
	Review float64 // of p50: above it, the developer has to review the run
	P50    float64 // above these, the run fails
	P95    float64
	Memory float64
	CPU    float64 // of worker and server together
}

var (
	// Whole is the tolerance of a whole run.
	Whole = Tolerance{Review: 0.07, P95: 0.10, Memory: 0.05}
	// Brief is the tolerance of thirty turns, as in CI. With another load of 25 on two cores CPU and memory were up to 13
	// % above the accepted ratio and p50 39 %, so p50 shows only what makes turns wait, and p95 is not judged.
	Brief = Tolerance{P50: 0.50, Memory: 0.20, CPU: 0.20}
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Review Severity = "review" // the developer must fix the regression or accept it with a reason
	Fail   Severity = "fail"
)

// Finding is a regression or a failure.
type Finding struct {
	Severity Severity
	Scenario string
	Arm      string // empty if the finding concerns the whole scenario
	Measure  string // likewise
	What     string // the whole finding in words
}

// Gate compares a run with the accepted one. It skips scenarios that only one of them has, and unsynced arms.
func Gate(now, accepted Result, t Tolerance) []Finding {
	var out []Finding
	for _, q := range now.Ratios() {
		before, ok := accepted.ratio(q.Scenario, q.Arm)
		part := now.Part(q.Scenario)
		m, _ := part.Arm(q.Arm)
		if !ok || !q.Judged || !part.Gated || m.Unsynced || before.To != q.To {
			continue
		}
		add := func(s Severity, what string, now, before, may float64) {
			if may > 0 && before > 0 && now > before*(1+may) {
				out = append(out, Finding{s, q.Scenario, q.Arm, what,
					fmt.Sprintf("%s, %s: %s is %.2f of %s; accepted was %.2f (%+.0f %%, allowed %+.0f %%)",
						q.Scenario, q.Arm, what, now, q.To, before, (now/before-1)*100, may*100)})
			}
		}
		add(Review, "p50", q.P50, before.P50, t.Review)
		add(Fail, "p50", q.P50, before.P50, t.P50)
		add(Fail, "p95", q.P95, before.P95, t.P95)
		add(Fail, "peak memory", q.Memory, before.Memory, t.Memory)
		add(Fail, "CPU of worker and server", q.TotalCPU, before.TotalCPU, t.CPU)
	}
	return out
}

// Failures returns the errors of a run: turns that failed.
func (r Result) Failures() []Finding {
	var out []Finding
	for _, p := range r.Parts {
		for _, m := range p.Measures {
			if m.Errors > 0 {
				out = append(out, Finding{Fail, p.Scenario, m.Arm, "errors",
					fmt.Sprintf("%s, %s: %s: %s", p.Scenario, m.Arm, plural(m.Errors, "error"), m.FirstError)})
			}
		}
	}
	return out
}

// Confirmed returns the findings that a second run of their scenarios has, too: noise rarely affects the same figure
// twice.
func Confirmed(first, second []Finding) []Finding {
	same := func(a, b Finding) bool {
		return a.Scenario == b.Scenario && a.Arm == b.Arm && a.Measure == b.Measure
	}
	var out []Finding
	for _, f := range first {
		if slices.ContainsFunc(second, func(g Finding) bool { return same(f, g) }) {
			out = append(out, f)
		}
	}
	return out
}

// Exit codes of a run.
const (
	ExitWithin = 0
	ExitFail   = 1
	ExitReview = 3
)

// ExitCode returns the exit code for the findings.
func ExitCode(findings []Finding) int {
	code := ExitWithin
	for _, f := range findings {
		switch {
		case f.Severity == Fail:
			return ExitFail
		case f.Severity == Review:
			code = ExitReview
		}
	}
	return code
}
