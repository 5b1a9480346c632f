package activities

import (
	"context"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/call"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Options are the dependencies of the activities. Journal, Model and Tools are required, and Agents if turns begin on
// this worker.
type Options struct {
	Journal Journal
	Model   completion.Model
	Tools   Tools
	// Agents are the agents that turns may run as; the first one is the default.
	Agents []turn.Agent
	// Settings are what the turns of all agents have in common.
	Settings Settings
	Worker   string // names this process in the journal's claims
	// Home is the task queue that only this process polls; empty if it runs no calls. TaskQueue is the task queue of its
	// turns.
	Home, TaskQueue string
	// Offers returns the versions that this worker offers of its tool servers, by server: see turn.Catalogue.Version. Nil
	// means that it offers none.
	Offers func() map[string]string
	// Redact removes secrets from text before it reaches the history, the journal or events. Nil leaves text unchanged.
	Redact *redact.Redactor
	// Queues are the task queues for the inferences and calls of the turns that begin on this worker. Elsewhere has a
	// task queue for each role that this worker lacks: see workflows.Elsewhere.
	Queues, Elsewhere turn.Queues
	// Capacity keeps inferences within the fleet limits. Nil means that there are none.
	Capacity *capacity.Limiter
	// Budget has the ceilings of each session and tenant. The ceiling of a turn is in its config.
	Budget journal.Budget
	// JournalRetryFor is how long this worker's activities retry while the journal is unavailable. Turns that begin on
	// this worker get it as their turn.Config.JournalRetryFor.
	JournalRetryFor time.Duration
	// Slots is how many activities of a task queue this worker runs at the same time; 0 means many. At most half of them
	// wait for a user.
	Slots int
	// CacheBytes bounds the cache of transcript windows; 0 means 64 MiB.
	CacheBytes int64
}

// Activities implements workflows.Activities. Register a pointer to it; it has no other exported methods. The names of
// its methods are those of the activities in the histories of running turns.
type Activities struct {
	journal         Journal
	settings        Settings
	agents          []turn.Agent // the default one first
	clientTools     []turn.Descriptor
	secrets         *redact.Redactor
	queues          turn.Queues
	elsewhere       turn.Queues
	journalRetryFor time.Duration
	budget          journal.Budget
	frozen          *frozen.Cache
	attempts        *attempt.Attempts
	authorizer      *authorize.Authorizer
	completions     *completion.Runner
	calls           *call.Runner
}

// New returns the activities with empty caches.
func New(o Options) (*Activities, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Offers == nil {
		o.Offers = func() map[string]string { return nil }
	}
	if len(o.Agents) == 0 {
		l, p := o.Settings.Limits, o.Settings.Policy // for tests with one agent
		o.Agents = []turn.Agent{{MaxSteps: l.MaxSteps, TurnTimeout: l.TurnTimeout, MaxTokens: l.MaxTokens,
			MaxCostUSD: l.MaxCostUSD, Deny: p.Deny, Ask: p.Ask}}
	}
	configured, err := clientTools(o.Settings.ClientTools)
	if err != nil {
		return nil, err
	}
	attempts := attempt.New(o.Journal, o.JournalRetryFor)
	cache, err := frozen.New(o.Journal, o.CacheBytes)
	if err != nil {
		return nil, err
	}
	authorizer := authorize.New(authorize.Options{Journal: o.Journal, Frozen: cache, Offers: o.Offers,
		Servers: o.Settings.Servers, Redact: o.Redact})
	completions, err := completion.New(completion.Options{
		Journal: o.Journal, Model: o.Model, Checker: o.Tools, Frozen: cache, Attempts: attempts, Authorizer: authorizer,
		Redact: o.Redact, Queues: o.Queues, Elsewhere: o.Elsewhere, Capacity: o.Capacity, Budget: o.Budget,
		MaxArgumentBytes: o.Settings.MaxArgumentBytes,
	})
	if err != nil {
		return nil, err
	}
	calls, err := call.New(call.Options{
		Journal: o.Journal, Tools: o.Tools, Frozen: cache, Attempts: attempts, Authorizer: authorizer, Redact: o.Redact,
		Worker: o.Worker, Home: o.Home, TaskQueue: o.TaskQueue, Queues: o.Queues, Elsewhere: o.Elsewhere,
		Slots: o.Slots,
	})
	if err != nil {
		return nil, err
	}
	return &Activities{
		journal: o.Journal, settings: o.Settings, agents: o.Agents, clientTools: configured, secrets: o.Redact,
		queues: o.Queues, elsewhere: o.Elsewhere,
		journalRetryFor: o.JournalRetryFor, budget: o.Budget, frozen: cache, attempts: attempts, authorizer: authorizer,
		completions: completions, calls: calls,
	}, nil
}

// Infer implements workflows.Activities: see completion.Runner.
func (a *Activities) Infer(ctx context.Context, in workflows.InferInput) (workflows.InferResult, error) {
	return a.completions.Infer(ctx, in)
}

// CallTool implements workflows.Activities: see call.Runner.
func (a *Activities) CallTool(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	return a.calls.CallTool(ctx, in)
}

// BeginSubagent implements workflows.Activities: see call.Runner.
func (a *Activities) BeginSubagent(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	return a.calls.BeginSubagent(ctx, in)
}

// SettleSubagent implements workflows.Activities: see call.Runner.
func (a *Activities) SettleSubagent(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	return a.calls.SettleSubagent(ctx, in)
}

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	completion.Checker
	call.Tools
}

// Journal is what the activities need of a journal.DB, which documents the methods.
type Journal interface {
	attempt.Journal
	frozen.Journal
	authorize.Journal
	completion.Journal
	call.Journal
	Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error)
	Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error)
	Ask(ctx context.Context, session, turnID string, requests []turn.Request, at time.Time) ([]turn.Decision, error)
	Decide(ctx context.Context, session, turnID string, decisions []turn.Decision, at time.Time) error
}
