package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/faults/check"
)

// mutant is a promise that is broken on purpose, the point at which that shows, and the invariant that must notice.
type mutant struct {
	name, point string
	breaks      check.Invariant // empty: nothing may be noticed
}

// prey are the mutants of tests/faults/worker. Those that change nothing are as strict a test of the harness as the
// others: they run through the same wrappers and must be found without fault.
var prey = []mutant{
	{"nothing", "effect", ""},
	{"nothing", "zombie_call", ""},
	{"nothing", "clients_20", ""},
	{"nothing", "order", ""},
	{"claim_dropped", "effect", check.I2},
	{"settle_before_effect", "begun", check.I2},
	{"no_claim", "effect", check.I2},
	{"attempts_raised", "begun", check.I2},
	{"cancel_for_stop", "begun", check.I1},
	{"dedup_forgotten", "clients_20", check.I1},
	{"message_lost", "order", check.I1},
	{"results_by_arrival", "order", check.I3},
	{"late_over_transcript", "zombie_call", check.I3},
	{"chunk_index_reused", "clients_later", check.I3},
	{"prompt_varies", "inference", check.I4},
	{"paid_again", "answer_after", check.I4},
	{"history_changed", "order", check.I6},
	{"child_left", "order", check.I7},
	{"goroutines_left", "order", check.I7},
	{"secret_streamed", "llm_500", check.I8},
}

// hunt plays every mutant and reports whether each was noticed by its invariant.
func (o order) hunt(ctx context.Context, ps programs, bin, dir string) (bool, error) {
	shared, err := newServer(ctx, ps.temporal, filepath.Join(bin, "server"))
	if err != nil {
		return false, err
	}
	defer shared.close()
	prey := slices.DeleteFunc(slices.Clone(prey), func(m mutant) bool { return !o.wanted(m.name) })
	fmt.Printf("seed %d, %d mutants, %d at once\n", o.seed, len(prey), o.parallel)
	began := time.Now()
	slots := make(chan struct{}, max(1, o.parallel))
	outcomes := make([]outcome, len(prey))
	var hunters sync.WaitGroup
	for i, m := range prey {
		hunters.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ps := ps
			ps.mutation = m.name
			outcomes[i] = play(ctx, ps, shared, pointNamed(m.point), o.seed, filepath.Join(dir, fmt.Sprintf("%s-%s-%d", m.name, m.point, o.seed)), o.keep)
			report(m, outcomes[i])
		})
	}
	hunters.Wait()
	escaped := 0
	for i, m := range prey {
		if !m.asItShould(outcomes[i]) {
			escaped++
		}
	}
	fmt.Printf("\n%d mutants in %s, %d not as they should be\n", len(prey), time.Since(began).Round(time.Second), escaped)
	return escaped == 0, errors.Join(ctx.Err(), figures(o.docs, "mutants", func(b *bytes.Buffer) {
		provenance(b, os.Args[1:])
		mutantFigures(b, prey, outcomes)
	}))
}

// asItShould reports whether a mutant was noticed by its invariant, or one that changes nothing by none.
func (m mutant) asItShould(o outcome) bool {
	if m.breaks == "" {
		return !o.failed()
	}
	return slices.Contains(check.Invariants(o.violations), m.breaks)
}

// report prints what became of a mutant.
func report(m mutant, o outcome) {
	found, good := check.Invariants(o.violations), m.asItShould(o)
	verdict := map[bool]string{true: "caught", false: "ESCAPED"}[good]
	if m.breaks == "" {
		verdict = map[bool]string{true: "passed", false: "BLAMED"}[good]
	}
	line := fmt.Sprintf("%-8s %-21s at %-13s %5.1fs  %v", verdict, m.name, m.point, o.took.Seconds(), found)
	shown := 0
	for _, v := range o.violations {
		if v.Invariant == m.breaks && shown < 2 || !good {
			shown++
			what, _, _ := strings.Cut(v.What, "\n")
			line += "\n         " + string(v.Invariant) + ": " + what
		}
	}
	if !good && o.err != nil {
		line += "\n         " + o.err.Error()
	}
	fmt.Println(line)
}

func pointNamed(name string) point {
	all := allPoints()
	return all[slices.IndexFunc(all, func(p point) bool { return p.name == name })]
}
