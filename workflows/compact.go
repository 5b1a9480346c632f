package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// CompactWorkflow is the workflow type that compacts a session's conversation because a user asks for it.
const CompactWorkflow = "Compact"

// CompactInput starts a Compact workflow. Session is required. The workflow's ID must belong to the tenant: see
// WorkflowID.
type CompactInput struct {
	Version int    `json:"v,omitempty"`
	Session string `json:"session"`
	Tenant  string `json:"tenant,omitempty"` // the session's tenant; empty: the default tenant
	Focus   string `json:"focus,omitempty"`  // what the summary should preserve first
	// Request names the compaction in the journal, so that an attempt finds what an earlier one settled. The workflow sets
	// it to its workflow ID.
	Request string `json:"request,omitempty"`
}

// CompactResult describes a compaction.
type CompactResult struct {
	// Nothing means that the conversation has nothing that could be compacted.
	Nothing bool `json:"nothing,omitempty"`
	turn.CompactedEvent
}

// maxFocus bounds CompactInput.Focus, in bytes.
const maxFocus = 1000

// The timeout of one attempt of the activity, and the maximum number of its attempts. An outage of the provider uses up
// attempts.
const (
	compactTimeout  = 10 * time.Minute
	CompactAttempts = 8
)

// Compact compacts the conversation of a session that has no running turn. It can repeat its activity after a crash: a
// summary that the journal has settled is not requested, and paid for, again.
func Compact(ctx workflow.Context, in CompactInput) (CompactResult, error) {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	if err := in.check(id); err != nil {
		return CompactResult{}, temporal.NewNonRetryableApplicationError(err.Message, string(err.Code), nil)
	}
	in.Request = id
	options := workflow.ActivityOptions{
		StartToCloseTimeout: compactTimeout, HeartbeatTimeout: heartbeat,
		Summary: "compact " + turn.Truncate(in.Session, 100),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			MaximumAttempts: CompactAttempts,
		},
	}
	for n := 1; ; n++ {
		res, err := call(workflow.WithActivityOptions(ctx, options), Activities.Compact, in)
		queues, elsewhere := queuesOf(err)
		if n == maxCallAttempts || !elsewhere {
			return res, err
		}
		options.TaskQueue = queues.Inference // the worker lacks the inference role
	}
}

// check rejects an invalid input, and a workflow ID of another tenant.
func (in CompactInput) check(workflowID string) *turn.Error {
	if err := errors.Join(turn.CheckSession(in.Session), CheckTenant(in.Tenant)); err != nil {
		return invalid("%s", err.Error())
	}
	if _, ok := SessionOf(in.Tenant, workflowID); !ok {
		return invalid("the workflow ID does not belong to the tenant; start the workflow under %q and a name",
			WorkflowID(in.Tenant, ""))
	}
	if len(in.Focus) > maxFocus {
		return invalid("the focus is %d bytes; the maximum is %d", len(in.Focus), maxFocus)
	}
	return checkVersion(in.Version)
}
