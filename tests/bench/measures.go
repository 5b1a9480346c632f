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

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// part collects a scenario's figures while its workers are still running.
func (r *harness) part(ctx context.Context, sc scenario, meters []*meter, p *provider,
	before map[string]tally) (report.Part, error) {
	part := report.Part{Scenario: sc.name, Gated: sc.gated}
	sent, err := p.tallies(ctx)
	if err != nil {
		return part, err
	}
	for _, m := range meters {
		one, err := m.measure(ctx, sent[m.String()].since(before[m.String()]))
		if err != nil {
			return part, fmt.Errorf("%s: %w", sc.name, err)
		}
		part.Measures = append(part.Measures, one)
		if sc.replayed && m.doom == "" {
			replay, err := m.replay(ctx, sc.spec)
			if err != nil {
				return part, err
			}
			part.Replays = append(part.Replays, replay)
		}
	}
	return part, err
}

func (m *meter) measure(ctx context.Context, sent tally) (report.Measure, error) {
	one := report.Measure{Arm: m.String(), Kind: string(m.kind), Lane: string(m.lane), Unsynced: m.unsynced, Doom: m.doom,
		Turns: len(m.latencies), Errors: len(m.errs) + sent.Refused}
	if len(m.errs) > 0 {
		one.FirstError = m.errs[0].Error()
	}
	if m.doom != "" {
		return one, nil
	}
	n := float64(len(m.latencies))
	if n == 0 {
		return one, fmt.Errorf("no turn of %s came to an end: %w", m, errors.Join(m.errs...))
	}
	one.Latency, one.TurnsPerSecond = report.Quantiles(m.latencies), n/m.elapsed.Seconds()
	one.WorkerCPU, one.ServerCPU = ms(m.cpuWorker)/n, ms(m.cpuServer)/n
	one.ModelBytes, one.Steps = float64(sent.Bytes)/n, float64(sent.Requests)/n
	var err error
	if one.PeakBytes, err = proc.PeakBytes(m.workers[0].PID()); err != nil {
		return one, err
	}
	after := m.rows
	if err := m.count(ctx, &after); err != nil {
		return one, err
	}
	one.JournalRows, one.JournalBytes = float64(after.rows-m.rows.rows)/n, float64(after.bytes-m.rows.bytes)/n
	return one, m.history(ctx, &one)
}

// looked is the number of histories that are read. The smallest one belongs to a turn without retries.
const looked = 3

// history reads the sizes of the last turns' histories.
func (m *meter) history(ctx context.Context, one *report.Measure) error {
	for i := m.next; i > max(0, m.next-min(looked, len(m.latencies))); i-- {
		d, err := m.harness.client.DescribeWorkflowExecution(ctx, m.session(i), "")
		if err != nil {
			return fmt.Errorf("describing a turn of %s: %w", m, err)
		}
		info := d.WorkflowExecutionInfo
		if one.Events == 0 || info.HistoryLength < one.Events {
			one.Events, one.HistoryBytes = info.HistoryLength, info.HistorySizeBytes
		}
	}
	return nil
}
