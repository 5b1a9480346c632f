package report

import (
	"fmt"
	"strings"
)

// Ratio compares an arm of Everturn with an arm that does the same work in another way.
type Ratio struct {
	Scenario, Arm, To   string
	Judged              bool // aims and the gate use this one: one per arm
	P50, P95            float64
	TurnsPerSecond      float64
	Memory              float64
	WorkerCPU, TotalCPU float64 // TotalCPU: worker and server together
}

// Ratios returns all comparisons of a run.
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

// against returns the arms that m is compared with, in its lane. The first one is the cookbook or, if the scenario has
// none, the floor; it decides the verdict.
func (p Part) against(m Measure) []Measure {
	lane, _, _ := strings.Cut(m.Lane, " ") // a quick MCP call is compared with a regular one
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
		P50: over(m.Latency.P50, b.Latency.P50), P95: over(m.Latency.P95, b.Latency.P95),
		TurnsPerSecond: over(m.TurnsPerSecond, b.TurnsPerSecond),
		Memory:         over(float64(m.PeakBytes), float64(b.PeakBytes)), WorkerCPU: over(m.WorkerCPU, b.WorkerCPU),
		TotalCPU: over(m.WorkerCPU+m.ServerCPU, b.WorkerCPU+b.ServerCPU),
	}
}

// over returns a/b, or 0 if b was too small to measure: CPU time comes in steps of 10 ms.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratio returns the comparison that judges an arm; ok is false if the run has none.
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
