package workflows

import (
	"errors"
	"fmt"
	"math"
	"strings"
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
	r.children, r.share, r.lesserShare = nil, nil, nil
	if n > 0 {
		r.children = workflow.NewSemaphore(ctx, maxChildren)
		r.share, r.lesserShare = r.shareOf(n), r.shareOf(2*n)
	}
}

// shareOf returns an nth of what is left of the turn's limits; nil if nothing is left.
func (r *run) shareOf(n int) *LimitsRequest {
	share, ok := turn.ShareOf(r.progress.Config.Limits, r.progress.Counters, n)
	if !ok {
		return nil
	}
	timeout := share.Timeout.String()
	retryFor := r.progress.Config.Limits.RetryFor.String()
	limits := &LimitsRequest{TurnTimeout: &timeout, RetryFor: &retryFor}
	if share.Tokens > 0 {
		limits.MaxTokens = &share.Tokens
	}
	if share.Cost != nil {
		dollars := share.Cost.Dollars()
		limits.MaxCostUSD = &dollars
	}
	return limits
}

// delegate runs a call of an agent's tool: it claims the call, runs the agent's turn as a child workflow, and settles
// the call with its answer. The child's session and the ID of its message derive from the call, so a turn that was
// reset, or whose worker died, gets the answer of the child that it started before.
func (r *run) delegate(ctx workflow.Context, f *callState, tool turn.Tool) (CallResult, error) {
	if r.share == nil {
		return CallResult{}, nothingLeft()
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
	child := agentTurn{CallInput: in, Message: begun.Message, Limits: r.share}
	if begun.Background {
		return r.startBackground(ctx, child)
	}
	busy, problem := child.run(ctx)
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

func nothingLeft() error {
	return temporal.NewApplicationError("nothing is left of the turn's max_tokens or max_cost_usd",
		string(turn.CodePolicyDenied))
}

// The pauses before a child whose session has a running turn is started again.
const (
	firstChildPause = 2 * time.Second
	maxChildPause   = time.Minute
)

// agentTurn is the turn of an agent that a call starts.
type agentTurn struct {
	CallInput
	Message Message        `json:"message"`
	Limits  *LimitsRequest `json:"limits,omitempty"`
	// Agent is the agent of the caller, and Asks is Input's.
	Agent string `json:"agent,omitempty"`
	Asks  bool   `json:"asks,omitempty"`
}

func (a agentTurn) session() string { return turn.ChildSession(a.Turn, a.Call.ID) }

func (a agentTurn) name() string { return strings.TrimPrefix(a.Tool.ID, turn.AgentTools) }

// maxAgentTurn bounds the part of a delivery that says which agent it runs, without the task, in bytes of JSON.
const maxAgentTurn = 16 << 10

// check rejects the call of an agent that no turn has made.
func (a *agentTurn) check(in DeliverInput) *turn.Error {
	sized := *a
	sized.Message.Text = ""
	if err := checkSize("call", sized, maxAgentTurn); err != nil {
		return err
	}
	_, _, ok := turn.ParentCall(a.session())
	if !ok || turn.CheckSession(a.session()) != nil || a.Session != in.Session || a.Tenant != in.Tenant ||
		!strings.HasPrefix(a.Tool.ID, turn.AgentTools) {
		return invalid("the delivery names no call of an agent by its session")
	}
	if err := checkAgent(a.name()); err != nil {
		return err
	}
	if _, err := a.Limits.Apply(turn.DefaultLimits()); err != nil {
		return invalid("%s", err.Error())
	}
	return checkMessage(a.Message)
}

// priority is that of the caller's activities.
func (a agentTurn) priority() temporal.Priority {
	p := Priority(a.Tenant, a.Message.Background)
	p.PriorityKey--
	return p
}

// run runs the agent's turn, and waits for its end. It returns the turn's working time, and why the turn failed as far
// as Temporal knows: the journal has the rest. A child that an earlier run of the caller has started, before a reset,
// goes on; when it has ended, the next one finds its answer.
func (a agentTurn) run(ctx workflow.Context) (busy time.Duration, problem string) {
	session, id := a.session(), WorkflowID(a.Tenant, a.session())
	// A turn that ends while its children run asks them to stop, and each of them settles its own calls.
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WaitForCancellation:   true,
		Priority:              a.priority(),
		StaticSummary:         Summary(a.name() + " for " + a.Session),
		TypedSearchAttributes: temporal.NewSearchAttributes(AttrSession.ValueSet(session), AttrAgent.ValueSet(a.name()),
			AttrState.ValueSet(string(turn.StateRunning))),
	})
	for pause := firstChildPause; ; pause = min(2*pause, maxChildPause) {
		var result Result
		err := workflow.ExecuteChildWorkflow(ctx, TurnWorkflow, Input{
			Version: WireVersion, Session: session, Tenant: a.Tenant, Message: &a.Message, Agent: a.name(), Limits: a.Limits,
			Asks: a.Asks,
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
			stop(stopping, id)
			return 0, "it was stopped"
		}
	}
}

// stop asks a workflow to stop.
func stop(ctx workflow.Context, id string) {
	if err := workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("a workflow could not be stopped", "workflow", id, "error", err)
	}
}

// maxBackground bounds the agents that a turn calls in the background.
const maxBackground = 4

// backgroundID is the workflow ID of the delivery that runs an agent's turn in the background.
func backgroundID(tenant, session string) string { return WorkflowID(tenant, session) + "/answer" }

// startBackground starts a delivery that runs the agent's turn and sends its answer to the caller's session, and
// settles the call. The delivery outlives this turn. The agent gets half of an inline agent's share, which counts as
// used: the turn goes on meanwhile.
func (r *run) startBackground(ctx workflow.Context, child agentTurn) (CallResult, error) {
	if child.Limits = r.lesserShare; child.Limits == nil {
		return CallResult{}, nothingLeft()
	}
	if len(r.progress.Background) >= maxBackground {
		return CallResult{}, temporal.NewApplicationError(fmt.Sprintf("the turn has called %d agents in the background, "+
			"which is the maximum", maxBackground), string(turn.CodePolicyDenied))
	}
	r.progress.Background = append(r.progress.Background, child.session())
	child.Agent, child.Asks = r.progress.Config.Agent, true
	own, _ := workflow.NewDisconnectedContext(ctx) // a cancelled one would stop the delivery: see stopBackground
	options := workflow.WithChildOptions(own, workflow.ChildWorkflowOptions{
		WorkflowID:            backgroundID(child.Tenant, child.session()),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:              child.priority(),
		StaticSummary:         Summary(child.name() + " for " + child.Session + ", in the background"),
	})
	err := workflow.ExecuteChildWorkflow(options, DeliverWorkflow, DeliverInput{
		Version: WireVersion, Session: child.Session, Tenant: child.Tenant, Agent: child.Agent, Call: &child,
	}).GetChildWorkflowExecution().Get(ctx, nil)
	var started *temporal.ChildWorkflowExecutionAlreadyStartedError
	switch {
	case ctx.Err() != nil:
		return CallResult{}, ctx.Err()
	case err != nil && !errors.As(err, &started): // which an earlier run of this turn has done, before a reset
		return CallResult{}, err
	}
	receipt, err := runJournal(ctx, Activities.SettleDelegated, DelegatedInput{CallInput: child.CallInput, Started: true},
		"settle "+summary(child.CallInput))
	granted := turn.Usage{}
	if l := child.Limits; l.MaxTokens != nil {
		granted.InputTokens = *l.MaxTokens
	}
	if l := child.Limits; l.MaxCostUSD != nil {
		granted.Cost = turn.USD(math.Round(*l.MaxCostUSD * float64(turn.Dollar)))
	}
	receipt.Usage = &granted
	return receipt, err
}

// stopBackground stops the agents that a stopped turn has called in the background.
func (r *run) stopBackground(ctx workflow.Context) {
	for _, session := range r.progress.Background {
		stop(ctx, backgroundID(r.in.Tenant, session))
	}
}

// answer runs the turn of an agent in the background, and returns the message with its answer.
func (a agentTurn) answer(ctx workflow.Context) (Message, error) {
	_, problem := a.run(ctx)
	if ctx.Err() != nil {
		problem = "it was stopped"
	}
	settling, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	receipt, err := runJournal(settling, Activities.SettleDelegated,
		DelegatedInput{CallInput: a.CallInput, Problem: problem, Deliver: true}, "settle "+summary(a.CallInput))
	switch {
	case ctx.Err() != nil:
		return Message{}, ctx.Err()
	case err != nil:
		return Message{}, err
	case receipt.Message == nil:
		return Message{}, temporal.NewNonRetryableApplicationError("the agent has left no answer",
			string(turn.CodeInternal), nil)
	}
	return *receipt.Message, nil
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
