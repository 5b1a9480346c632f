package call

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/activities/frozen"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call
	// may be attempted again; tool_drift means that the tool is no longer the one in the turn config. Every other
	// ending is a result, with outcome unknown if the tool may or may not have acted. Cancelling ctx cancels the call.
	Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error)
}

// Journal is what calls need of a journal.DB, which documents the methods: the ledger of calls, and which worker has
// which tools.
type Journal interface {
	ClaimCall(ctx context.Context, in journal.CallRecord, approved bool, sensitive ...string) (journal.CallRecord, error)
	SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
		at time.Time) (journal.CallRecord, error)
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	SuspendCall(ctx context.Context, turnID, callID string, attempt int, continuation []byte) error
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error)
	Workers(ctx context.Context) ([]fleet.WorkerReport, error)
	Tenant(tenant string) *journal.DB
}

// Options are the dependencies of a Runner.
type Options struct {
	Journal    Journal
	Tools      Tools
	Frozen     *frozen.Cache
	Attempts   *attempt.Attempts
	Authorizer *authorize.Authorizer
	Redact     *redact.Redactor
	// Worker, Home, TaskQueue, Queues, Elsewhere and Slots are those of activities.Options.
	Worker            string
	Home, TaskQueue   string
	Queues, Elsewhere turn.Queues
	Slots             int
}

// Runner implements the activities of tool calls: CallTool, BeginSubagent and SettleSubagent.
type Runner struct {
	journal           Journal
	tools             Tools
	frozen            *frozen.Cache
	attempts          *attempt.Attempts
	authorizer        *authorize.Authorizer
	secrets           *redact.Redactor
	worker            string
	home, taskQueue   string
	queues, elsewhere turn.Queues
	waitingCalls      *semaphore.Weighted           // for a user
	claimTimes        *lru.Cache[string, time.Time] // of claims whose reply from the journal may have been lost
}

// maxClaimTimes bounds the number of claims of which a worker keeps the time.
const maxClaimTimes = 4096

// New returns a Runner.
func New(o Options) (*Runner, error) {
	if o.Slots == 0 {
		o.Slots = 2 * maxWaitingCalls
	}
	times, err := lru.New[string, time.Time](maxClaimTimes)
	if err != nil {
		return nil, fmt.Errorf("making the cache of claims: %w", err)
	}
	return &Runner{
		journal: o.Journal, tools: o.Tools, frozen: o.Frozen, attempts: o.Attempts, authorizer: o.Authorizer,
		secrets: o.Redact, worker: o.Worker, home: o.Home, taskQueue: o.TaskQueue, queues: o.Queues,
		elsewhere: o.Elsewhere, claimTimes: times,
		waitingCalls: semaphore.NewWeighted(int64(min(maxWaitingCalls, o.Slots/2))),
	}, nil
}
