package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Agent is the configuration from which a turn's config is made when the turn begins.
type Agent struct {
	Name         string
	Description  string // what it is for, told to the models of the agents that may call it
	SystemPrompt string
	// Agents are the names of the agents that it may call, and MaxDepth is how many agents may be above another one.
	Agents   []string
	MaxDepth int
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
	// RetryMax and FallbackAfter are those of turn.Config.
	RetryMax      *int
	FallbackAfter time.Duration
	Temperature   *float64
	MaxTokens     int // of one completion; 0 leaves it to the provider
	// Skills are those that turns get if their request asks for them.
	Skills skills.Set
	// Plan is what users confirm of the plans by which the agent works; empty means that it works without one, unless
	// the user's message asks for one.
	Plan plan.Confirm
	// Tools are patterns of the tools that the agent may call, of those that Policy allows; none means all of them.
	Tools []string
	// Servers are the catalogues that a turn may use: "local" and the configured MCP servers.
	Servers []string
	// Required are those of Servers without which no turn begins.
	Required []string
}

// Options are the dependencies of the activities. All but Redact, Worker, Capacity, JournalRetryFor and CacheBytes are
// required.
type Options struct {
	Journal Journal
	Model   Model
	Tools   Tools
	// Agents are those that turns may have; the first one is the default.
	Agents []Agent
	Worker string // names this process in the journal's claims
	// Home is the task queue that only this process polls; empty if it runs no calls. TaskQueue is that of its turns.
	Home, TaskQueue string
	// Offers returns the versions that this worker offers of its tool servers, by server: see turn.Catalogue.Version.
	Offers func() map[string]string
	// Redact removes secrets from text before it reaches the history, the journal or chunks. Nil leaves text unchanged.
	Redact *redact.Redactor
	// Queues are the task queues for the inferences and calls of the turns that begin on this worker. Elsewhere are
	// those of the roles that this worker lacks: see workflows.Elsewhere.
	Queues, Elsewhere turn.Queues
	// Capacity keeps inferences within the fleet limits. Nil means that there are none.
	Capacity *capacity.Limiter
	// Budget are the ceilings of each session and tenant. Turns bring their own.
	Budget journal.Budget
	// JournalRetryFor is that of the turn.Config of turns that begin on this worker; its own activities keep to it, too.
	JournalRetryFor time.Duration
	// CacheBytes bounds the cache of transcript windows; 0 means 64 MiB.
	CacheBytes int64
}

// Activities implements workflows.Activities. Register a pointer to it; it has no other exported methods.
type Activities struct {
	journal         Journal
	model           Model
	tools           Tools
	agent           Agent // the default
	agents          []Agent
	worker          string
	home, taskQueue string
	offers          func() map[string]string
	secrets         *redact.Redactor
	windows         *windowCache
	promptConfigs   *promptConfigCache
	turns           *lru.Cache[string, begunTurn]
	running         running
	outages         *outage.Outages // of models
	large           largeAnswers
	prompts         *semaphore.Weighted
	queues          turn.Queues
	elsewhere       turn.Queues
	capacity        *capacity.Limiter
	journalRetryFor time.Duration
	budget          journal.Budget
	// times are when turns have shown what they wait for, and those of claims that may have been made.
	times      *lru.Cache[string, time.Time]
	remembered *lru.Cache[string, remembered] // by the hash of the head after an inference
}

var _ workflows.Activities = (*Activities)(nil)

// New returns the activities with their caches.
func New(o Options) (*Activities, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Offers == nil {
		o.Offers = func() map[string]string { return nil }
	}
	if len(o.Agents) == 0 {
		o.Agents = []Agent{{}}
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
	times, err := lru.New[string, time.Time](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of times: %w", err)
	}
	last, err := lru.New[string, remembered](maxRemembered)
	if err != nil {
		return nil, fmt.Errorf("making the cache of condensations: %w", err)
	}
	return &Activities{
		remembered: last,
		turns:      turns, outages: outage.New(maxModelPause), large: make(largeAnswers, 4),
		prompts: semaphore.NewWeighted(largePrompts), journal: o.Journal,
		capacity: o.Capacity, budget: o.Budget, times: times, journalRetryFor: o.JournalRetryFor,
		model: redactedModel{o.Model, o.Redact}, tools: o.Tools, agent: o.Agents[0], agents: o.Agents, worker: o.Worker,
		home: o.Home, taskQueue: o.TaskQueue, offers: o.Offers,
		secrets: o.Redact, windows: windows, promptConfigs: promptConfigs, queues: o.Queues, elsewhere: o.Elsewhere,
	}, nil
}

func decodeConfig(raw json.RawMessage) (turn.Config, error) {
	var p turn.Config
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, turn.Errorf(turn.CodeInternal, err, "the turn's config cannot be read")
	}
	return p, nil
}

// Model is the port to model providers. Package activities/inference implements it.
type Model interface {
	// Infer sends the prompt and streams the completion into sink. It returns a whole completion or a *turn.Error with
	// one of the llm_ codes; it never retries. Cancelling ctx ends the request; the cause is in the error's chain. With
	// an error, the completion has the usage that the provider has reported, or nothing.
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	// Takes reports whether the prompt's model accepts media of this type. Only accepted media have Data in the prompt.
	Takes(p turn.Prompt, mediaType string) bool
}

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
	Check(d turn.Descriptor, arguments json.RawMessage) error
	// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call
	// may be dispatched again; tool_drift means that the tool is no longer the one in the turn config. Every other
	// ending is a result, with outcome unknown if the tool may or may not have acted. Cancelling ctx cancels the call.
	Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error)
	// Await keeps a call whose result was ToolResult.Held open. It returns when the call has ended, when its server no
	// longer waits for the response, or when another Await begins for the call. Cancelling ctx cancels the call, unless
	// the cause is context.DeadlineExceeded. A call that is neither awaited nor continued is soon cancelled.
	Await(ctx context.Context, turnID, callID string)
}

// Journal is what the activities need of a journal.DB, which documents the methods.
type Journal interface {
	Transcript
	Inferences
	Calls
	Requests
	Fleet
	OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error)
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	Tenant(tenant string) *journal.DB
}

// Transcript begins and ends turns, and reads their messages.
type Transcript interface {
	Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error)
	Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error)
	Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error)
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error)
}

// Inferences is the ledger of inferences, with the chunks that they stream.
type Inferences interface {
	StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error)
	SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error)
	FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
		message string) (failures int, err error)
	ReleaseInference(ctx context.Context, key journal.StepKey, attempt int) error
	ChangeModel(ctx context.Context, key journal.StepKey, attempt int, chunk turn.Chunk, change turn.ModelChunk) error
	ModelChange(ctx context.Context, key journal.StepKey) (turn.ModelChunk, error)
	ReserveUsage(ctx context.Context, in journal.ReserveInput) (output int64, refusal *journal.BudgetRefusal, err error)
	RecordUsage(ctx context.Context, in journal.AttemptUsage) error
	AppendChunks(ctx context.Context, key journal.StepKey, attempt int, chunks []turn.Chunk) error
	AppendStream(ctx context.Context, in journal.StreamInput) error
	LastInput(ctx context.Context, turnID string, seq int64) (tokens, upTo int64, err error)
	SettleCondensation(ctx context.Context, in journal.SettleCondensation) (turn.Condensation, error)
	Condensation(ctx context.Context, turnID string, seq int64) (*turn.Condensation, error)
	CondensationUsage(ctx context.Context, key journal.StepKey) (turn.Usage, error)
}

// Calls is the ledger of tool calls.
type Calls interface {
	ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error)
	SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error)
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	SuspendCall(ctx context.Context, in journal.SettleInput) error
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	Taint(ctx context.Context, turnID string) (*journal.TaintSource, error)
}

// Requests records what turns wait for, and the decisions.
type Requests interface {
	Ask(ctx context.Context, in turn.AskInput) ([]turn.Decision, error)
	Decide(ctx context.Context, in turn.DecideInput) error
	Grants(ctx context.Context, turnID string) ([]turn.Grant, error)
}
