package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
)

func join(a, b error) error { return errors.Join(a, b) }

// measures puts an arm's numbers together, its worker still running.
func (r *rig) measures(ctx context.Context, sc scenario, meters []*meter, p *provider) ([]report.Measure, error) {
	sent, err := p.tallies(ctx)
	if err != nil {
		return nil, err
	}
	var out []report.Measure
	for _, m := range meters {
		n := len(m.latencies)
		if n == 0 {
			return nil, fmt.Errorf("%s: no turn of %s came to an end: %w", sc.name, m, errors.Join(m.errs...))
		}
		all := float64(m.next) // warm-up included
		one := report.Measure{
			Scenario: sc.name, Arm: m.String(), Turns: n, Errors: len(m.errs) + sent[m.String()].Refused,
			Latency:        report.Quantiles(m.latencies),
			TurnsPerSecond: float64(n) / m.elapsed.Seconds(),
			WorkerCPU:      ms(m.worker) / float64(n), ServerCPU: ms(m.server) / float64(n),
			ModelBytes: float64(sent[m.String()].Bytes) / all, Steps: float64(sent[m.String()].Requests) / all,
		}
		if one.PeakBytes, err = proc.PeakBytes(m.subject.worker.PID()); err != nil {
			return nil, err
		}
		if err := m.history(ctx, &one); err != nil {
			return nil, err
		}
		if err := m.journal(ctx, &one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// history reads the size of the last turn's history.
func (m *meter) history(ctx context.Context, one *report.Measure) error {
	d, err := m.rig.client.DescribeWorkflowExecution(ctx, m.session(m.next), "")
	if err != nil {
		return fmt.Errorf("describing a turn of %s: %w", m, err)
	}
	one.Events, one.HistoryBytes = d.WorkflowExecutionInfo.HistoryLength, d.WorkflowExecutionInfo.HistorySizeBytes
	return nil
}
