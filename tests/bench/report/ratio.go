package report

import (
	"fmt"
	"strings"
)

// Ratio compares an arm of Everturn's with the one that does the same the usual way.
type Ratio struct {
	Scenario, Arm, To   string
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
			if b, ok := p.against(m); ok {
				out = append(out, ratio(p.Scenario, m, b))
			}
		}
	}
	return out
}

// against is the cookbook's arm in the same lane, or the floor's where the cookbook has none.
func (p Part) against(m Measure) (Measure, bool) {
	lane, _, _ := strings.Cut(m.Lane, " ") // a quick MCP call is compared with a usual one
	for _, kind := range []string{"cookbook", "floor"} {
		if b, ok := p.Arm(kind + " " + lane); ok {
			return b, true
		}
	}
	return Measure{}, false
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

// ratio is one comparison; ok is false where the run has none.
func (r Result) ratio(scenario, arm string) (Ratio, bool) {
	for _, q := range r.Ratios() {
		if q.Scenario == scenario && q.Arm == arm {
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
