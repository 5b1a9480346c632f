package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Agent is the configuration from which a turn's config is made when the turn begins.
type Agent struct {
	Name         string
	SystemPrompt string
	// Models returns the models of a turn that begins now: the requested one ("" for the agent's), and its fallbacks in
	// order. The error is for the user.
	Models func(requested string) ([]turn.Model, error)
	Limits turn.Limits
	// Condense is how prompts are condensed; nil means that they are not. If its ContextTokens or Model is not set, it is
	// that of the turn's model.
	Condense *turn.Condensing
	// MaxArgumentBytes bounds the arguments of one call; 0 leaves the bound to the model's adapter.
	MaxArgumentBytes int
	Policy           turn.Policy
	Approvals        turn.Approvals
	RetryMax         int           // transport and rate-limit failures that one inference may retry
	LimitWait        time.Duration // see turn.Config
	Temperature      *float64
	MaxTokens        int // of one completion; 0 leaves it to the provider
	// Skills are those that turns get if their request asks for them.
	Skills skills.Set
	// Servers are the catalogues that a turn may use: "local" and the configured MCP servers.
	Servers []string
	// Required are those of Servers without which no turn begins.
	Required []string
}

// Options are the dependencies of the activities. All but Redact, Worker, Capacity and CacheBytes are required.
type Options struct {
	Journal Journal
	Model   Model
	Tools   Tools
	Agent   Agent
	Worker  string // names this process in the journal's claims
	// StickyQueue is the task queue that only this process polls; empty if no call must come back to this process.
	StickyQueue string
	// Redact removes secrets from text before it reaches the history, the journal or chunks. Nil leaves text unchanged.
	Redact *redact.Redactor
	// Queues are the task queues for the inferences and calls of the turns that begin on this worker. Elsewhere are
	// those of the roles that this worker lacks: see workflows.Elsewhere.
	Queues, Elsewhere turn.Queues
	// Capacity keeps inferences within the fleet limits. Nil means that there are none.
	Capacity *capacity.Limiter
	// Budget are the ceilings of each session and tenant. Turns bring their own.
	Budget journal.Budget
	// CacheBytes bounds the cache of transcript windows; 0 means 64 MiB.
	CacheBytes int64
}

// Activities implements workflows.Activities. Register a pointer to it; it has no other exported methods.
type Activities struct {
	journal         Journal
	model           Model
	tools           Tools
	agent           Agent
	worker          string
	stickyQueueName string
	secrets         *redact.Redactor
	windows         *windowCache
	promptConfigs   *promptConfigCache
	turns           *lru.Cache[string, begunTurn]
	running         running
	large           largeAnswers
	prompts         *semaphore.Weighted
	queues          turn.Queues
	elsewhere       turn.Queues
	capacity        *capacity.Limiter
	budget          journal.Budget
	waits           *lru.Cache[string, time.Time]  // when turns have shown what they wait for
	remembered      *lru.Cache[string, remembered] // by the hash of the head after an inference
}

var _ workflows.Activities = (*Activities)(nil)

// New returns the activities with their caches.
func New(o Options) (*Activities, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	windows, err := newWindowCache(o.CacheBytes)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompts: %w", err)
	}
	promptConfigs, err := newPromptConfigCache(o.Journal)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompt configs: %w", err)
	}
	turns, err := lru.New[string, begunTurn](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of turns: %w", err)
	}
	waits, err := lru.New[string, time.Time](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of waits: %w", err)
	}
	last, err := lru.New[string, remembered](maxRemembered)
	if err != nil {
		return nil, fmt.Errorf("making the cache of condensations: %w", err)
	}
	return &Activities{
		remembered: last,
		turns:      turns, large: make(largeAnswers, 4), prompts: semaphore.NewWeighted(largePrompts), journal: o.Journal,
		capacity: o.Capacity, budget: o.Budget, waits: waits,
		model: redactedModel{o.Model, o.Redact}, tools: o.Tools, agent: o.Agent, worker: o.Worker,
		stickyQueueName: o.StickyQueue,
		secrets:         o.Redact, windows: windows, promptConfigs: promptConfigs, queues: o.Queues, elsewhere: o.Elsewhere,
	}, nil
}

func decodeConfig(raw json.RawMessage) (turn.Config, error) {
	var p turn.Config
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, turn.Errorf(turn.CodeInternal, err, "the turn's config cannot be read")
	}
	return p, nil
}

// failure maps an error to the application error that leaves the worker. Its type is the turn.Code and its message is
// for the user; its cause goes only to the log. An application error stays as it is.
func failure(ctx context.Context, err error, details ...any) error {
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(context.Cause(ctx)):
		return temporal.NewCanceledError()
	case temporal.IsApplicationError(err):
		return err
	}
	e := asTurnError(err)
	logFailure(ctx, e)
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Code), temporal.ApplicationErrorOptions{
		NonRetryable: !e.Code.Retryable(), NextRetryDelay: e.RetryAfter, Details: details,
	})
}
