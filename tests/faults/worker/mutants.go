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
var journalMutants = map[string]func(mutant) engine.Journal{
	"nothing":              func(m mutant) engine.Journal { return m.Journal },
	"claim_dropped":        func(m mutant) engine.Journal { return &claimDropped{m} },
	"settle_before_effect": func(m mutant) engine.Journal { return &settleBeforeEffect{mutant: m} },
	"no_claim":             func(m mutant) engine.Journal { return &noClaim{mutant: m} },
	"results_by_arrival":   func(m mutant) engine.Journal { return &resultsByArrival{mutant: m} },
	"late_over_transcript": func(m mutant) engine.Journal { return &lateOverTranscript{m} },
	"dedup_forgotten":      func(m mutant) engine.Journal { return &dedupForgotten{m} },
	"paid_again":           func(m mutant) engine.Journal { return &paidAgain{m} },
	"agent_misquoted":      func(m mutant) engine.Journal { return &agentMisquoted{m} },
	"allowance_forgotten":  func(m mutant) engine.Journal { return &allowanceForgotten{m} },
	"summary_forgotten":    func(m mutant) engine.Journal { return &summaryForgotten{m} },
	"model_misnamed":       func(m mutant) engine.Journal { return &modelMisnamed{m} },
	"plan_rewritten":       func(m mutant) engine.Journal { return &planRewritten{m} },
	"mode_forgotten":       func(m mutant) engine.Journal { return &modeForgotten{mutant: m} },
	"plan_forgetful":       func(m mutant) engine.Journal { return &planForgetful{mutant: m} },
	"prompt_varies":        func(m mutant) engine.Journal { return &promptVaries{m} },
	"event_index_reused":   func(m mutant) engine.Journal { return &eventIndexReused{mutant: m} },
	"message_lost":         func(m mutant) engine.Journal { return &messageLost{m} },
	"text_forgotten":       func(m mutant) engine.Journal { return &textForgotten{m} },
	"secret_streamed":      func(m mutant) engine.Journal { return &secretStreamed{m} },
	"child_left":           func(m mutant) engine.Journal { return &childLeft{mutant: m} },
	"tools_lost":           func(m mutant) engine.Journal { return &toolsLost{mutant: m} },
	"runs_early":           func(m mutant) engine.Journal { return &runsEarly{m} },
	"joined_dropped":       func(m mutant) engine.Journal { return &joinedDropped{m} },
	"joined_doubled":       func(m mutant) engine.Journal { return &joinedDoubled{m} },
	"decision_overridden":  func(m mutant) engine.Journal { return &decisionOverridden{m} },
	"taint_dropped":        func(m mutant) engine.Journal { return &taintDropped{m} },
	"drift_not_held":       func(m mutant) engine.Journal { return &driftNotHeld{m} },
	"begun_afresh":         func(m mutant) engine.Journal { return &begunAfresh{mutant: m} },
	"reply_invented":       func(m mutant) engine.Journal { return &replyInvented{m} },
	"goroutines_left":      func(m mutant) engine.Journal { return &goroutinesLeft{m} },
	"claim_kept":           func(m mutant) engine.Journal { return &claimKept{m} },
	"grants_imported":      func(m mutant) engine.Journal { return &grantsImported{m} },
	"memory_kept":          func(m mutant) engine.Journal { return &memoryKept{mutant: m} },
	"command_outlives":     func(m mutant) engine.Journal { return &commandOutlives{m} },
	"changes_misattributed": func(m mutant) engine.Journal {
		forgetInterrupted(m.cfg)
		return m.Journal
	},
	// These two break a promise that the workflow and CallTool both keep: see workerMutants for the workflow's part.
	"never_asked": func(m mutant) engine.Journal {
		return &claimChanged{m, func(_ *journal.CallRecord, approved *bool) { *approved = false }}
	},
	"unknown_retried": func(m mutant) engine.Journal {
		return &claimChanged{m, func(in *journal.CallRecord, _ *bool) { in.Repeatable = true }}
	},
}

// workerMutants break a promise in what workflows ask of Temporal.
var workerMutants = map[string]interceptor.WorkerInterceptor{
	"nothing":            &workflowMutant{},
	"attempts_raised":    &workflowMutant{attempts: 5},
	"cancel_for_stop":    &workflowMutant{cancelForStop: true},
	"history_changed":    &workflowMutant{timer: true},
	"never_asked":        &workflowMutant{unasked: true},
	"denied_runs":        &workflowMutant{allowing: true},
	"approval_crossed":   &workflowMutant{crossed: true},
	"decided_again":      &workflowMutant{lax: true},
	"unknown_retried":    &workflowMutant{repeatable: true},
	"affinity_forgotten": &workflowMutant{affinityForgotten: true},
	"reply_unbound":      &workflowMutant{unbound: true},
}

// mutant is the journal that a mutant wraps, and the configuration that it runs under.
type mutant struct {
	engine.Journal
	cfg config.Config
}

func addMutants(f *flags) {
	flag.StringVar(&f.mutant, "mutant", "nothing", "the promise to break, by `name`")
}

func mutate(name string, cfg config.Config, s engine.Journal) engine.Journal {
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
