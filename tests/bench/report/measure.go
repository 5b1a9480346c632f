package report

import (
	"slices"
	"time"
)

// Result is a whole run.
type Result struct {
	Machine Machine `json:"machine"`
	Reason  string  `json:"reason,omitempty"` // why the run was accepted as the baseline
	Smoke   bool    `json:"smoke,omitempty"`
	Gate    bool    `json:"gate,omitempty"`
	Parts   []Part  `json:"parts"`
}

// Part holds the results of one scenario.
type Part struct {
	Scenario string    `json:"scenario"`
	Gated    bool      `json:"gated,omitempty"`
	Measures []Measure `json:"measures"`
	Replays  []Replay  `json:"replays,omitempty"`
}

// Measure holds the figures of one arm in a scenario. Times are in milliseconds; CPU, bytes and rows are per turn.
type Measure struct {
	Arm  string `json:"arm"`
	Kind string `json:"kind"` // the implementation: everturn, cookbook or floor
	Lane string `json:"lane"` // how tool calls run
	// Unsynced reports whether the journal does not wait for the disk at each commit.
	Unsynced bool `json:"unsynced,omitempty"`
	// Doom is what became of an arm that cannot do it; nothing else is set then.
	Doom           string  `json:"doom,omitempty"`
	Turns          int     `json:"turns"`
	Errors         int     `json:"errors"`
	FirstError     string  `json:"first_error,omitempty"`
	Latency        Spread  `json:"latency_ms"`
	TurnsPerSecond float64 `json:"turns_per_second"`
	Steps          float64 `json:"steps"`         // inferences that the provider received
	WorkerCPU      float64 `json:"worker_cpu_ms"` // user and system time of the worker's process alone
	ServerCPU      float64 `json:"server_cpu_ms"`
	PeakBytes      int64   `json:"peak_bytes"` // resident memory of the worker's process
	Events         int64   `json:"events"`     // the minimum of the last few histories
	HistoryBytes   int64   `json:"history_bytes"`
	JournalRows    float64 `json:"journal_rows,omitempty"`
	JournalBytes   float64 `json:"journal_bytes,omitempty"`
	ModelBytes     float64 `json:"model_bytes"` // sent to the model
}

// Spread is a distribution.
type Spread struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

// Replay is the cost of replaying a turn's history in a fresh process.
type Replay struct {
	Arm          string  `json:"arm"`
	Steps        int     `json:"steps"`
	Events       int     `json:"events"`
	HistoryBytes int     `json:"history_bytes"`
	Milliseconds float64 `json:"ms"`
	PerStep      float64 `json:"ms_per_step"`
	PeakBytes    int64   `json:"peak_bytes"` // resident memory of the process
}

// Quantiles summarizes durations. The n-th percentile is the smallest value that at least n % of them do not exceed.
func Quantiles(all []time.Duration) Spread {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return Spread{}
	}
	at := func(percent int) float64 {
		i := (len(sorted)*percent + 99) / 100 // rounded up
		return float64(sorted[max(i, 1)-1]) / float64(time.Millisecond)
	}
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return Spread{P50: at(50), P95: at(95), P99: at(99),
		Mean: float64(sum) / float64(len(sorted)) / float64(time.Millisecond)}
}

// Part returns the part of a scenario, or the zero Part if the run has none.
func (r Result) Part(scenario string) Part {
	for _, p := range r.Parts {
		if p.Scenario == scenario {
			return p
		}
	}
	return Part{}
}

// Arm returns an arm's measure. It reports false if the arm was not measured.
func (p Part) Arm(name string) (Measure, bool) {
	m, ok := p.entry(name)
	return m, ok && m.Doom == ""
}

// entry returns the part's entry for an arm, which may only say how the arm failed.
func (p Part) entry(name string) (Measure, bool) {
	for _, m := range p.Measures {
		if m.Arm == name {
			return m, true
		}
	}
	return Measure{}, false
}
