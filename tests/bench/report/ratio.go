package report

import (
	"fmt"
	"strings"
)

// Ratio compares an arm of Everturn's with one that does the same in another way.
type Ratio struct {
	Scenario, Arm, To   string
	Judged              bool // aims and gate look at this one: there is one an arm
	P50, P95            float64
	TurnsPerSecond      float64
	Memory              float64
	WorkerCPU, TotalCPU float64 // TotalCPU: worker and server together
}

// Ratios are all comparisons of a run.
func (r Result) Ratios() []Ratio {
	var out []Ratio
	for _, p := range r.Parts {
		for _, m := range p.Measures {
			if m.Kind != "everturn" || m.Doom != "" {
				continue
			}
			for i, b := range p.against(m) {
				q := ratio(p.Scenario, m, b)
				q.Judged = i == 0
				out = append(out, q)
			}
		}
	}
	return out
}

// against are the arms that m is compared with, in its lane: the cookbook first, which judges, or the floor where there
// is none.
func (p Part) against(m Measure) []Measure {
	lane, _, _ := strings.Cut(m.Lane, " ") // a quick MCP call is compared with a usual one
	var out []Measure
	for _, name := range []string{"cookbook " + lane, "cookbook " + lane + " tuned", "floor " + lane} {
		if b, ok := p.Arm(name); ok {
			out = append(out, b)
		}
	}
	return out
}

func ratio(scenario string, m, b Measure) Ratio {
	return Ratio{
		Scenario: scenario, Arm: m.Arm, To: b.Arm,
		P50: over(m.Latency.P50, b.Latency.P50), P95: over(m.Latency.P95, b.Latency.P95), TurnsPerSecond: over(m.TurnsPerSecond, b.TurnsPerSecond),
		Memory: over(float64(m.PeakBytes), float64(b.PeakBytes)), WorkerCPU: over(m.WorkerCPU, b.WorkerCPU),
		TotalCPU: over(m.WorkerCPU+m.ServerCPU, b.WorkerCPU+b.ServerCPU),
	}
}

// over is a/b, and 0 where b was too small to be measured: CPU time comes in steps of 10 ms.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratio is the comparison that judges an arm; ok is false where the run has none.
func (r Result) ratio(scenario, arm string) (Ratio, bool) {
	for _, q := range r.Ratios() {
		if q.Judged && q.Scenario == scenario && q.Arm == arm {
			return q, true
		}
	}
	return Ratio{}, false
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
