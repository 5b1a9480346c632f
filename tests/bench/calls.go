package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/bench/report"
)

// withCalls measures the cost of a call over MCP beyond the same call made directly with the SDK's client, prints the
// table and, if requested, puts it into the documentation.
func (p *program) withCalls(ctx context.Context, r *rig) error {
	size := callsFull
	if p.smoke {
		size = callsSmoke
	}
	fmt.Fprint(r.progress, "calls ")
	began := time.Now()
	out, err := r.measureCalls(ctx, size)
	if err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	fmt.Fprintf(r.progress, " %s\n", time.Since(began).Round(time.Second))
	out.Machine = report.ThisMachine()
	if err := report.CallsTable(p.stdout, out); err != nil || p.smoke || !p.write {
		return err
	}
	page := filepath.Join(p.docs, "benchmarks.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := report.InsertCalls(old, out)
	if err != nil {
		return fmt.Errorf("renewing %s: %w", page, err)
	}
	return write(page, text)
}

// callsSize gives the number of rounds, of direct calls and turns per round, and of hops per turn.
type callsSize struct{ rounds, straight, turns, hops int }

var (
	callsFull  = callsSize{rounds: 10, straight: 200, turns: 4, hops: 20}
	callsSmoke = callsSize{rounds: 1, straight: 20, turns: 1, hops: 4}
)

// sideCalls is the number of additional calls in each hop of the second kind of turn. The difference between the two
// kinds gives the cost of one call.
const sideCalls = 5

// engineArm holds the measured turns of one lane.
type engineArm struct {
	one, many *meter // hops of one call, and of sideCalls more
}

// measureCalls alternates between the two kinds of direct calls and the turns of both lanes, round by round.
func (r *rig) measureCalls(ctx context.Context, size callsSize) (out report.Calls, err error) {
	p, err := r.provider(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = join(err, p.Stop()) }()
	one := scenario{name: "calls one", spec: hops(size.hops, 1), turns: size.turns * size.rounds, inFlight: 1}
	many := scenario{name: "calls many", spec: hops(size.hops, 1+sideCalls), turns: size.turns * size.rounds, inFlight: 1}
	var meters []*meter
	defer func() { err = join(err, stopAll(meters)) }()
	var arms []engineArm
	for _, a := range []arm{ourMCP, {kind: everturn, lane: laneMCPQuick}} {
		var pair [2]*meter
		for i, sc := range []scenario{one, many} {
			s, err := r.subject(ctx, sc, a, p)
			if err != nil {
				return out, err
			}
			pair[i] = &meter{subject: s}
			meters = append(meters, pair[i])
			if err := pair[i].prepare(ctx, sc); err != nil {
				return out, err
			}
		}
		arms = append(arms, engineArm{pair[0], pair[1]})
	}
	straight := map[string]*straightRun{"sdk": {}, "host": {}}
	for range size.rounds {
		for _, kind := range []string{"sdk", "host"} {
			if err := r.straight(ctx, kind, size.straight, straight[kind]); err != nil {
				return out, err
			}
		}
		for _, a := range arms {
			if err := errors.Join(a.one.block(ctx, one, size.turns), a.many.block(ctx, many, size.turns)); err != nil {
				return out, err
			}
		}
		fmt.Fprint(r.progress, ".")
	}
	out.Bytes = one.spec.Bytes
	out.Costs = []report.CallCost{straight["sdk"].cost("straight, with the SDK's client"),
		straight["host"].cost("the tool host alone")}
	for i, lane := range []string{"as an activity", "as a quick call"} {
		costs, err := r.engineCosts(ctx, lane, arms[i], size)
		if err != nil {
			return out, err
		}
		out.Costs = append(out.Costs, costs...)
	}
	return out, nil
}

// straightRun holds the times of calls made without an engine. The process that makes them prints it as JSON.
type straightRun struct {
	Took []time.Duration `json:"took"`
	CPU  time.Duration   `json:"cpu"`
}

func (s *straightRun) cost(what string) report.CallCost {
	return report.CallCost{What: what, Latency: report.Quantiles(s.Took), Samples: len(s.Took),
		CPU: ms(s.CPU) / float64(len(s.Took))}
}

// straight starts a process that makes n calls, one at a time.
func (r *rig) straight(ctx context.Context, kind string, n int, into *straightRun) error {
	cmd := exec.CommandContext(ctx, r.self, "straight", kind, r.folder("mcpserver"), strconv.Itoa(resultBytes),
		strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("calling straight: %w", err)
	}
	var one straightRun
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	into.Took, into.CPU = append(into.Took, one.Took...), into.CPU+one.CPU
	return nil
}

// engineCosts returns the durations of a lane's calls by the journal's timestamps, and the CPU time of one more call.
func (r *rig) engineCosts(ctx context.Context, lane string, a engineArm, size callsSize) ([]report.CallCost, error) {
	if errs := errors.Join(append(a.one.errs, a.many.errs...)...); errs != nil {
		return nil, errs
	}
	store, err := sqlite.Open(ctx, r.journal(a.one.name), sqlite.Options{Synchronous: "normal"})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var inside, hop []time.Duration
	for i := a.one.next; i > a.one.next-len(a.one.latencies); i-- {
		in, out, err := callTimes(ctx, store, a.one.session(i))
		if err != nil {
			return nil, err
		}
		inside, hop = append(inside, in...), append(hop, out...)
	}
	more := float64(size.hops * sideCalls * len(a.one.latencies))
	worker, server := ms(a.many.cpuWorker-a.one.cpuWorker)/more, ms(a.many.cpuServer-a.one.cpuServer)/more
	return []report.CallCost{
		{What: lane + ": from its claim to its settlement", Latency: report.Quantiles(inside), Samples: len(inside)},
		{What: lane + ": from the answer that asks to the next prompt", Latency: report.Quantiles(hop), Samples: len(hop),
			CPU: worker, ServerCPU: server},
	}, nil
}

// callTimes returns how long each call of a turn took from claim to settlement, and how long each hop took from the
// completion that requested the call to the prompt with its result.
func callTimes(ctx context.Context, store *journal.DB, session string) (inside, hop []time.Duration, err error) {
	turns, err := store.Turns(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range turns {
		calls, err := store.Calls(ctx, t.ID)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range calls {
			inside = append(inside, c.SettledAt.Sub(c.ClaimedAt))
		}
		list, err := store.Inferences(ctx, t.ID)
		if err != nil {
			return nil, nil, err
		}
		for i := 1; i < len(list); i++ {
			hop = append(hop, list[i].StartedAt.Sub(list[i-1].SettledAt))
		}
	}
	return inside, hop, nil
}
