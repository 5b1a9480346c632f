package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxChildren bounds the children of a turn that run at the same time.
const maxChildren = 4

// shareLimits divides what is left of the turn's limits between the step's calls of agents.
func (r *run) shareLimits(ctx workflow.Context, states []*callState) {
	n := 0
	for _, f := range states {
		if tool, ok := r.progress.Config.Find(f.call.Tool); ok && tool.Activity == turn.ActivityAgent {
			n++
		}
	}
	r.children, r.share = nil, nil
	if n == 0 {
		return
	}
	r.children = workflow.NewSemaphore(ctx, maxChildren)
	share, ok := turn.ShareOf(r.progress.Config.Limits, r.progress.Counters, n)
	if !ok {
		return
	}
	timeout := share.Timeout.String()
	r.share = &LimitsRequest{TurnTimeout: &timeout}
	if share.Tokens > 0 {
		r.share.MaxTokens = &share.Tokens
	}
	if share.Cost != nil {
		dollars := share.Cost.Dollars()
		r.share.MaxCostUSD = &dollars
	}
}

// delegate runs a call of an agent's tool: it claims the call, runs the agent's turn as a child workflow, and settles
// the call with its answer. The child's session and the ID of its message derive from the call, so a turn that was
// reset, or whose worker died, gets the answer of the child that it started before.
func (r *run) delegate(ctx workflow.Context, f *callState, tool turn.Tool) (CallResult, error) {
	if r.share == nil {
		return CallResult{}, temporal.NewApplicationError("nothing is left of the turn's max_tokens or max_cost_usd",
			string(turn.CodePolicyDenied))
	}
	if err := r.children.Acquire(ctx, 1); err != nil {
		return CallResult{}, ctx.Err()
	}
	defer r.children.Release(1)
	f.attempt++
	in := r.callInput(f, tool)
	begun, err := runJournal(ctx, Activities.Delegate, in, summary(in))
	if err != nil {
		return CallResult{}, err
	}
	if begun.Receipt != nil {
		return *begun.Receipt, nil
	}
	busy, problem := r.runChild(ctx, in, begun.Message)
	settling := ctx
	if ctx.Err() != nil { // the child has been stopped with the turn, and has ended
		var cancel workflow.CancelFunc
		settling, cancel = workflow.NewDisconnectedContext(ctx)
		defer cancel()
	}
	receipt, err := runJournal(settling, Activities.SettleDelegated,
		DelegatedInput{CallInput: in, Problem: problem}, "settle "+summary(in))
	receipt.Busy = busy
	return receipt, err
}

// The pauses before a child whose session has a running turn is started again.
const (
	firstChildPause = 2 * time.Second
	maxChildPause   = time.Minute
)

// runChild runs the agent's turn, and waits for its end. It returns the turn's working time, and why the turn failed
// as far as Temporal knows: the journal has the rest. A child that an earlier run of this turn has started, before a
// reset, goes on; when it has ended, the next one finds its answer.
func (r *run) runChild(ctx workflow.Context, in CallInput, m Message) (busy time.Duration, problem string) {
	session := turn.ChildSession(r.turnID, in.Call.ID)
	agent := in.Tool.ID[len(turn.AgentTools):]
	// A turn that ends while its children run asks them to stop, and each of them settles its own calls.
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            WorkflowID(r.in.Tenant, session),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WaitForCancellation:   true,
		Priority:              r.priority(false),
		StaticSummary:         Summary(agent + " for " + r.session),
		TypedSearchAttributes: temporal.NewSearchAttributes(AttrSession.ValueSet(session), AttrAgent.ValueSet(agent),
			AttrState.ValueSet(string(turn.StateRunning))),
	})
	for pause := firstChildPause; ; pause = min(2*pause, maxChildPause) {
		var result Result
		err := workflow.ExecuteChildWorkflow(ctx, TurnWorkflow, Input{
			Version: WireVersion, Session: session, Tenant: r.in.Tenant, Message: &m, Agent: agent, Limits: r.share,
		}).Get(ctx, &result)
		if err == nil {
			return result.Busy, ""
		}
		var running *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &running) {
			return detailsOf(err).Busy, turn.Truncate(err.Error(), turn.ResultPreview)
		}
		if workflow.Sleep(ctx, pause) != nil {
			stopping, cancel := workflow.NewDisconnectedContext(ctx)
			defer cancel()
			err = workflow.RequestCancelExternalWorkflow(stopping, WorkflowID(r.in.Tenant, session), "").Get(stopping, nil)
			if err != nil {
				workflow.GetLogger(ctx).Warn("a child could not be stopped", "session", session, "error", err)
			}
			return 0, "it was stopped"
		}
	}
}

// detailsOf returns the result that a failed or cancelled turn leaves in its error.
func detailsOf(err error) (result Result) {
	var failed *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &failed) && failed.HasDetails():
		err = failed.Details(&result)
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		err = cancelled.Details(&result)
	}
	if err != nil {
		return Result{}
	}
	return result
}
