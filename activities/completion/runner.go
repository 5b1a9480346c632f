package completion

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Model is the port to model providers. Package activities/inference implements it.
type Model interface {
	// Infer sends the prompt and streams the completion into sink. It returns a whole completion or a *turn.Error with
	// one of the llm_ codes; it never retries. Cancelling ctx ends the request; the cause is in the error's chain. With
	// an error, the completion has the usage that the provider has reported, or nothing.
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	// Takes reports whether the prompt's model accepts media of this type. Only accepted media have Data in the prompt.
	Takes(p turn.Prompt, mediaType string) bool
}

// Checker checks the arguments of calls and the answers of turns with an output schema. Package activities/tools
// implements it.
type Checker interface {
	// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
	Check(d turn.Descriptor, arguments json.RawMessage) error
}

// Journal is what completions need of a journal.DB, which documents the methods: the ledger of inferences, with the
// events that they stream, and the transcript.
type Journal interface {
	PromptContext(ctx context.Context, in journal.PromptContextInput) (journal.PromptContext, error)
	Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error)
	SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error)
	FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
		message string) (failures int, err error)
	ReleaseInference(ctx context.Context, key journal.StepKey, attempt int) error
	ChangeModel(ctx context.Context, key journal.StepKey, attempt int, event turn.Event, change turn.ModelEvent) error
	ModelChange(ctx context.Context, key journal.StepKey) (turn.ModelEvent, error)
	ReserveUsage(ctx context.Context, in journal.ReserveInput) (output int64, refusal *fleet.Refusal, err error)
	RecordUsage(ctx context.Context, in journal.AttemptUsage) error
	AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error
	AppendStream(ctx context.Context, in journal.StreamInput) error
	SettleCompaction(ctx context.Context, in journal.SettleCompaction) (turn.Compaction, error)
	CompactionUsage(ctx context.Context, key journal.StepKey) (turn.Usage, error)
	Tenant(tenant string) *journal.DB
}

// Options are the dependencies of a Runner.
type Options struct {
	Journal    Journal
	Model      Model
	Checker    Checker
	Frozen     *frozen.Cache
	Attempts   *attempt.Attempts
	Authorizer *authorize.Authorizer
	Redact     *redact.Redactor
	// Queues, Elsewhere, Capacity and Budget are those of activities.Options, and MaxArgumentBytes is that of the agents.
	Queues, Elsewhere turn.Queues
	Capacity          *capacity.Limiter
	Budget            journal.Budget
	MaxArgumentBytes  int
}

// Runner implements the activity Infer.
type Runner struct {
	journal           Journal
	model             Model
	checker           Checker
	frozen            *frozen.Cache
	attempts          *attempt.Attempts
	authorizer        *authorize.Authorizer
	secrets           *redact.Redactor
	queues, elsewhere turn.Queues
	capacity          *capacity.Limiter
	budget            journal.Budget
	maxArgumentBytes  int
	outages           *outage.Outages // of models
	large             largeAnswers
	prompts           *semaphore.Weighted
	shownWaits        *lru.Cache[string, time.Time]     // when a turn last showed what it waits for
	lastInferences    *lru.Cache[string, lastInference] // by the hash of the head after the inference
}

// maxShownWaits bounds the number of waits of which a worker keeps when they were shown.
const maxShownWaits = 4096

// New returns a Runner.
func New(o Options) (*Runner, error) {
	waits, err := lru.New[string, time.Time](maxShownWaits)
	if err != nil {
		return nil, fmt.Errorf("making the cache of waits: %w", err)
	}
	last, err := lru.New[string, lastInference](maxLastInferences)
	if err != nil {
		return nil, fmt.Errorf("making the cache of compactions: %w", err)
	}
	return &Runner{
		journal: o.Journal, model: Redacted(o.Model, o.Redact), checker: o.Checker, frozen: o.Frozen, attempts: o.Attempts,
		authorizer: o.Authorizer, secrets: o.Redact, queues: o.Queues, elsewhere: o.Elsewhere, capacity: o.Capacity,
		budget: o.Budget, maxArgumentBytes: o.MaxArgumentBytes,
		outages: outage.New(maxModelPause), large: make(largeAnswers, 4), prompts: semaphore.NewWeighted(largePrompts),
		shownWaits: waits, lastInferences: last,
	}, nil
}
