package report

import (
	"slices"
	"time"
)

// Measure is what one arm of a scenario came to. Times are in milliseconds; CPU, bytes and rows are a turn's.
type Measure struct {
	Scenario       string  `json:"scenario"`
	Arm            string  `json:"arm"`
	Turns          int     `json:"turns"`
	Errors         int     `json:"errors"`
	Latency        Spread  `json:"latency_ms"`
	TurnsPerSecond float64 `json:"turns_per_second"`
	Steps          float64 `json:"steps"`         // inferences that the provider saw
	WorkerCPU      float64 `json:"worker_cpu_ms"` // user and system, of the worker's process alone
	ServerCPU      float64 `json:"server_cpu_ms"`
	PeakBytes      int64   `json:"peak_bytes"` // resident, of the worker's process
	Events         int64   `json:"events"`     // of the last turn's history
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

// Quantiles sums durations up. A quantile is the smallest value that so many of them do not exceed.
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
	return Spread{P50: at(50), P95: at(95), P99: at(99), Mean: float64(sum) / float64(len(sorted)) / float64(time.Millisecond)}
}
