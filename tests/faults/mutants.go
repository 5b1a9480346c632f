package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/check"
)

// mutant is a promise that is broken on purpose, the point that shows it, and the detector that must report it: an
// invariant, or the schedule itself with an error that says so. A mutant without a detector is a control: it changes
// nothing.
type mutant struct {
	name, point string
	breaks      check.Invariant
	says        string
}

func (m mutant) control() bool { return m.breaks == "" && m.says == "" }

// mutants are those of tests/faults/worker. The controls test the harness as strictly as the others: they run
// through the same wrappers and must pass.
var mutants = []mutant{
	{name: "nothing", point: "effect"},
	{name: "nothing", point: "zombie_call"},
	{name: "nothing", point: "clients_later"},
	{name: "nothing", point: "order"},
	{name: "claim_dropped", point: "effect", breaks: check.I2},
	{name: "settle_before_effect", point: "begun", breaks: check.I2},
	{name: "no_claim", point: "effect", breaks: check.I2},
	{name: "attempts_raised", point: "begun", breaks: check.I2},
	{name: "cancel_for_stop", point: "begun", breaks: check.I1},
	{name: "dedup_forgotten", point: "clients_later", breaks: check.I1},
	{name: "message_lost", point: "order", breaks: check.I1},
	{name: "nothing", point: "cancel_shown"},
	{name: "text_forgotten", point: "cancel_shown", breaks: check.I3},
	{name: "results_by_arrival", point: "order", breaks: check.I3},
	{name: "late_over_transcript", point: "zombie_call", breaks: check.I3},
	{name: "event_index_reused", point: "clients_later", breaks: check.I3},
	{name: "prompt_varies", point: "inference", breaks: check.I4},
	{name: "paid_again", point: "answer_after", breaks: check.I4},
	{name: "nothing", point: "compaction_after"},
	{name: "nothing", point: "fallback_after"},
	{name: "nothing", point: "lease_after"},
	{name: "summary_forgotten", point: "compaction_after", breaks: check.I4},
	{name: "model_misnamed", point: "fallback_after", breaks: check.I4},
	{name: "nothing", point: "agent_settle_after"},
	{name: "agent_misquoted", point: "agent_settle_after", breaks: check.I1},
	{name: "nothing", point: "plan_dispatch_before"},
	{name: "plan_forgetful", point: "plan_dispatch_before", says: "is not as it was written"},
	{name: "nothing", point: "plan_dispatch_confirmed"},
	{name: "plan_rewritten", point: "plan_dispatch_confirmed", says: "is not as it was written"},
	{name: "nothing", point: "mode_after"},
	{name: "mode_forgotten", point: "mode_after", says: "tools were offered"},
	{name: "nothing", point: "command_runs"},
	{name: "nothing", point: "job_runs"},
	{name: "changes_misattributed", point: "command_runs", says: "is of"},
	{name: "changes_misattributed", point: "job_runs", says: "is of"},
	{name: "command_outlives", point: "command_streams", says: "outlive its worker"},
	{name: "nothing", point: "aside_answered"},
	{name: "allowance_forgotten", point: "aside_answered", breaks: check.I9},
	{name: "nothing", point: "wait_idle"},
	{name: "nothing", point: "decide_20"},
	{name: "nothing", point: "join_call"},
	{name: "joined_dropped", point: "join_20", breaks: check.I1},
	{name: "joined_doubled", point: "join_20", breaks: check.I1},
	{name: "never_asked", point: "wait_idle", breaks: check.I5},
	{name: "runs_early", point: "wait_idle", breaks: check.I5},
	{name: "denied_runs", point: "wait_idle", breaks: check.I5},
	{name: "approval_crossed", point: "decide_claim", breaks: check.I5},
	{name: "decided_again", point: "decide_20", breaks: check.I5},
	{name: "decision_overridden", point: "decide_after", breaks: check.I5},
	{name: "nothing", point: "elicitation_idle"},
	{name: "nothing", point: "drift_before"},
	{name: "nothing", point: "taint_settled"},
	{name: "nothing", point: "sticky_server"},
	{name: "nothing", point: "detach_late"},
	{name: "nothing", point: "elicitation_held_worker"},
	{name: "unknown_retried", point: "effect", breaks: check.I2},
	{name: "unknown_retried", point: "elicitation_held_worker", breaks: check.I2},
	{name: "begun_afresh", point: "elicitation_idle", breaks: check.I2},
	{name: "reply_invented", point: "elicitation_idle", breaks: check.I5},
	{name: "reply_invented", point: "elicitation_held_again", breaks: check.I5},
	{name: "reply_unbound", point: "elicitation_again", breaks: check.I5},
	{name: "affinity_forgotten", point: "sticky_server", breaks: check.I2},
	{name: "drift_not_held", point: "drift_before", breaks: check.I5},
	{name: "taint_dropped", point: "taint_settled", breaks: check.I5},
	{name: "late_over_transcript", point: "detach_late", breaks: check.I3},
	{name: "history_changed", point: "order", breaks: check.I6},
	{name: "child_left", point: "order", breaks: check.I7},
	{name: "goroutines_left", point: "order", breaks: check.I7},
	{name: "secret_streamed", point: "llm_500", breaks: check.I8},
	{name: "tools_lost", point: "mcp_exits", says: notOffered},
	{name: "nothing", point: "away_stdio"},
	{name: "nothing", point: "attack_notify"},
	{name: "nothing", point: "attack_import"},
	{name: "claim_kept", point: "away_stdio", says: " came to unknown "},
	{name: "grants_imported", point: "attack_import", says: notAsked},
	{name: "memory_kept", point: "attack_stderr", says: " MB of memory: at most "},
}

// hunt plays every mutant and reports whether its detector reported each.
func (o order) hunt(ctx context.Context, ps programs, bin, dir string) (bool, error) {
	shared, err := newServer(ctx, ps.temporal, filepath.Join(bin, "server"))
	if err != nil {
		return false, err
	}
	defer shared.close()
	chosen := some(o.share, slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !o.wanted(m.name) }))
	fmt.Printf("seed %d, %s, %d at once\n", o.seed, heads(chosen), o.parallel)
	began := time.Now()
	slots := make(chan struct{}, max(1, o.parallel))
	outcomes := make([]outcome, len(chosen))
	var hunters sync.WaitGroup
	for i, m := range chosen {
		hunters.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ps := ps
			ps.mutation = m.name
			ledgers := filepath.Join(dir, fmt.Sprintf("%s-%s-%d", m.name, m.point, o.seed))
			outcomes[i] = play(ctx, ps, shared, pointNamed(m.point), o.seed, ledgers, o.keep)
			report(m, outcomes[i])
		})
	}
	hunters.Wait()
	escaped := 0
	for i, m := range chosen {
		if !m.asItShould(outcomes[i]) {
			escaped++
		}
	}
	fmt.Printf("\n%s in %s, %d not as they should be\n", heads(chosen), time.Since(began).Round(time.Second), escaped)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return escaped == 0, o.figures("mutants-"+o.journal, func(b *bytes.Buffer) {
		provenance(b, os.Args[1:])
		mutantFigures(b, chosen, outcomes)
	})
}

// heads counts mutants and controls.
func heads(list []mutant) string {
	controls := 0
	for _, m := range list {
		if m.control() {
			controls++
		}
	}
	return fmt.Sprintf("%d mutants and %d controls", len(list)-controls, controls)
}

// asItShould reports whether its detector reported a mutant, or nothing reported a control.
func (m mutant) asItShould(o outcome) bool {
	switch {
	case m.control():
		return !o.failed()
	case m.says != "":
		return o.err != nil && strings.Contains(o.err.Error(), m.says)
	}
	return slices.Contains(check.Invariants(o.violations), m.breaks)
}

// report prints the result of a mutant.
func report(m mutant, o outcome) {
	found, good := check.Invariants(o.violations), m.asItShould(o)
	verdict := map[bool]string{true: "caught", false: "ESCAPED"}[good]
	if m.control() {
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
	if o.err != nil && (!good || m.says != "") {
		line += "\n         " + o.err.Error()
	}
	fmt.Println(line)
}

func pointNamed(name string) point {
	all := allPoints()
	return all[slices.IndexFunc(all, func(p point) bool { return p.name == name })]
}
