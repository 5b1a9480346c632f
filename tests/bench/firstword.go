package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows/turn"
)

// firstWords measures when a reader sees the first word of a streamed answer: directly from the provider, from the
// journal in another process, and from the cookbook, which shows nothing before the complete answer.
func (r *rig) firstWords(ctx context.Context, sc scenario, meters []*meter, p *provider) ([]report.FirstWord, error) {
	var out []report.FirstWord
	var direct []time.Duration
	for range sc.turns {
		took, err := p.firstWord(ctx, sc.spec)
		if err != nil {
			return nil, err
		}
		direct = append(direct, took)
	}
	out = append(out, report.FirstWord{From: "the provider, asked directly", Latency: report.Quantiles(direct)})
	for _, m := range meters {
		if m.kind != everturn {
			out = append(out, report.FirstWord{From: m.String() + " (its whole answer)", Latency: report.Quantiles(m.latencies)})
			continue
		}
		read, err := m.firstWords(ctx, sc)
		if err != nil {
			return nil, err
		}
		out = append(out, report.FirstWord{From: m.String(), Latency: report.Quantiles(read)})
	}
	for i := range out {
		out[i].Added = out[i].Latency.P50 - out[0].Latency.P50
	}
	return out, nil
}

// firstWord sends a request to the provider directly, without an engine in between.
func (p *provider) firstWord(ctx context.Context, sp spec) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"model": "direct", "stream": true,
		"messages": []any{map[string]string{"role": "user", "content": sp.message()}}})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(`"content":"This`)) {
			return time.Since(began), nil
		}
	}
	return 0, fmt.Errorf("the provider's stream has no word: %w", lines.Err())
}

// firstWords runs turns and reads their output as it arrives.
func (m *meter) firstWords(ctx context.Context, sc scenario) ([]time.Duration, error) {
	store, err := sqlite.Open(ctx, m.rig.journal(m.name), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var out []time.Duration
	for range sc.turns {
		took, err := m.firstWord(ctx, store, sc.spec)
		if err != nil {
			return nil, err
		}
		out = append(out, took)
	}
	return out, nil
}

func (m *meter) firstWord(ctx context.Context, store *journal.DB, sp spec) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	run, err := m.start(ctx, m.take(), sp)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	for c, err := range journal.Follow(ctx, store, run.GetRunID(), -1) {
		if err != nil {
			return 0, err
		}
		if c.Kind == turn.ChunkTextDelta {
			took = time.Since(began)
			break
		}
	}
	return took, run.Get(ctx, nil)
}
