//go:build mutants

package main

import (
	"flag"

	"go.temporal.io/sdk/interceptor"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
)

// journalMutants break a promise in what is written to the journal, or in what it returns.
var journalMutants = map[string]func(mutant) journal.Store{
	"nothing":              func(m mutant) journal.Store { return m.Store },
	"claim_dropped":        func(m mutant) journal.Store { return &claimDropped{m} },
	"settle_before_effect": func(m mutant) journal.Store { return &settleBeforeEffect{mutant: m} },
	"no_claim":             func(m mutant) journal.Store { return &noClaim{mutant: m} },
	"results_by_arrival":   func(m mutant) journal.Store { return &resultsByArrival{mutant: m} },
	"late_over_transcript": func(m mutant) journal.Store { return &lateOverTranscript{m} },
	"dedup_forgotten":      func(m mutant) journal.Store { return &dedupForgotten{m} },
	"paid_again":           func(m mutant) journal.Store { return &paidAgain{m} },
	"prompt_varies":        func(m mutant) journal.Store { return &promptVaries{m} },
	"chunk_index_reused":   func(m mutant) journal.Store { return &chunkIndexReused{mutant: m} },
	"message_lost":         func(m mutant) journal.Store { return &messageLost{m} },
	"secret_streamed":      func(m mutant) journal.Store { return &secretStreamed{m} },
	"child_left":           func(m mutant) journal.Store { return &childLeft{mutant: m} },
	"tools_lost":           func(m mutant) journal.Store { return &toolsLost{mutant: m} },
	"runs_early":           func(m mutant) journal.Store { return &runsEarly{m} },
	"joined_dropped":       func(m mutant) journal.Store { return &joinedDropped{m} },
	"joined_doubled":       func(m mutant) journal.Store { return &joinedDoubled{m} },
	"ruling_overridden":    func(m mutant) journal.Store { return &rulingOverridden{m} },
	"taint_dropped":        func(m mutant) journal.Store { return &taintDropped{m} },
	"drift_not_held":       func(m mutant) journal.Store { return &driftNotHeld{m} },
	"begun_afresh":         func(m mutant) journal.Store { return &begunAfresh{mutant: m} },
	"reply_invented":       func(m mutant) journal.Store { return &replyInvented{m} },
	"goroutines_left":      func(m mutant) journal.Store { return &goroutinesLeft{m} },
	"claim_kept":           func(m mutant) journal.Store { return &claimKept{m} },
	"grants_imported":      func(m mutant) journal.Store { return &grantsImported{m} },
	"memory_kept":          func(m mutant) journal.Store { return &memoryKept{mutant: m} },
	// These two break a promise that the workflow and CallTool both keep: see workerMutants for the workflow's part.
	"never_asked": func(m mutant) journal.Store {
		return &claimChanged{m, func(in *journal.ClaimInput) { in.Approved = false }}
	},
	"unknown_retried": func(m mutant) journal.Store {
		return &claimChanged{m, func(in *journal.ClaimInput) { in.Repeatable = true }}
	},
}

// workerMutants break a promise in what workflows ask of Temporal.
var workerMutants = map[string]interceptor.WorkerInterceptor{
	"nothing":          &workflowMutant{},
	"attempts_raised":  &workflowMutant{attempts: 5},
	"cancel_for_stop":  &workflowMutant{cancelForStop: true},
	"history_changed":  &workflowMutant{timer: true},
	"never_asked":      &workflowMutant{unasked: true},
	"denied_runs":      &workflowMutant{allowing: true},
	"approval_crossed": &workflowMutant{crossed: true},
	"decided_again":    &workflowMutant{lax: true},
	"unknown_retried":  &workflowMutant{repeatable: true},
	"home_forgotten":   &workflowMutant{homeless: true},
	"reply_unbound":    &workflowMutant{unbound: true},
}

// mutant is the journal that a mutant wraps, and the configuration that it runs under.
type mutant struct {
	journal.Store
	cfg config.Config
}

func addMutants(f *flags) {
	flag.StringVar(&f.mutant, "mutant", "nothing", "the promise to break, by `name`")
}

func mutate(name string, cfg config.Config, s journal.Store) journal.Store {
	if wrap, ok := journalMutants[name]; ok {
		return wrap(mutant{s, cfg})
	}
	if _, ok := workerMutants[name]; !ok {
		panic("there is no mutant " + name)
	}
	return s
}

func mutantOptions(name string) []engine.Option {
	if i, ok := workerMutants[name]; ok {
		return []engine.Option{engine.WithInterceptors(i)}
	}
	return nil
}
