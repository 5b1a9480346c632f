package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxSubagents bounds the subagents of a turn that run at the same time.
const maxSubagents = 4

// stepAgents are the subagents of a step, and what each may use.
type stepAgents struct {
	turn.Shares
	slots workflow.Semaphore
	// before is Counters.Granted before the step, and granted is what the step has granted.
	before, granted turn.Spending
}

// newStepAgents divides what is left of the turn's limits between the subagents that a step calls.
func (r *run) newStepAgents(ctx workflow.Context, states []*callState) *stepAgents {
	inline, background := 0, 0
	for _, cs := range states {
		switch tool, ok := r.progress.Config.Find(cs.call.Tool); {
		case !ok || tool.Activity != turn.ActivityAgent:
		case cs.call.Background:
			background++
		default:
			inline++
		}
	}
	if inline+background == 0 {
		return nil
	}
	c := &r.progress.Counters
	a := &stepAgents{
		Shares: turn.SharesOf(r.progress.Config.Limits, *c, len(states), inline, background), before: c.Granted,
		slots: workflow.NewSemaphore(ctx, maxSubagents),
	}
	for range background { // the step's other calls get what these leave
		c.Granted = c.Granted.Add(a.Background.All())
	}
	return a
}

// settle counts what the step has granted instead of what it might have.
func (a *stepAgents) settle(c *turn.Counters) {
	if a != nil {
		c.Granted = a.before.Add(a.granted)
	}
}

// runSubagent runs a call of an agent's tool: it claims the call, runs the agent's turn as a child workflow, and settles
// the call with its answer. The subagent's session and the ID of its message derive from the call, so a turn that was
// reset, or whose worker died, gets the answer of the subagent that it started before.
func (r *run) runSubagent(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	if c.call.Background {
		return r.runInBackground(ctx, c, tool)
	}
	if err := r.agents.slots.Acquire(ctx, 1); err != nil {
		return CallResult{}, ctx.Err()
	}
	defer r.agents.slots.Release(1)
	if err := r.checkTime(c); err != nil {
		return CallResult{}, err
	}
	share := r.agents.Inline
	share.Time = min(share.Time, turn.Remaining(r.progress.Config.Limits, r.workedSoFar()))
	if !share.Enough() {
		return CallResult{}, nothingLeft()
	}
	begun, subagent, err := r.claimAgent(ctx, c, tool, share)
	if err != nil || begun.Receipt != nil {
		return orEmpty(begun.Receipt), err
	}
	began := r.worked
	busy, problem := subagent.run(ctx)
	r.addWork(began, busy)
	settling := ctx
	if ctx.Err() != nil { // the subagent has been stopped with the turn, and has ended
		var cancel workflow.CancelFunc
		settling, cancel = workflow.NewDisconnectedContext(ctx)
		defer cancel()
	}
	return runJournal(settling, Activities.SettleSubagent, SettleSubagentInput{CallInput: subagent.CallInput, Problem: problem},
		"settle "+summary(subagent.CallInput))
}

// claimAgent claims a call of an agent's tool, with what its subagent may use.
func (r *run) claimAgent(ctx workflow.Context, c *callState, tool turn.Tool,
	share turn.Allowance) (BeginSubagentResult, agentTurn, error) {
	c.attempt++
	in := r.callInput(c, tool)
	begun, err := runJournal(ctx, Activities.BeginSubagent, SubagentInput{CallInput: in, Granted: share}, summary(in))
	return begun, agentTurn{CallInput: in, Message: begun.Message}, err
}

func orEmpty(receipt *CallResult) CallResult {
	if receipt == nil {
		return CallResult{}
	}
	return *receipt
}

func nothingLeft() error {
	return temporal.NewApplicationError("not enough is left of the turn's max_steps, max_tokens, max_cost_usd or "+
		"turn_timeout for an agent", string(turn.CodePolicyDenied))
}

// The pauses before a subagent whose session has a running turn is started again.
const (
	firstSubagentPause = 2 * time.Second
	maxSubagentPause   = time.Minute
)

// agentTurn is the turn of an agent that a call starts.
type agentTurn struct {
	CallInput
	Message Message `json:"message"`
	// Agent is the agent of the caller, and Asks is Input's.
	Agent string `json:"agent,omitempty"`
	Asks  bool   `json:"asks,omitempty"`
}

func (a agentTurn) session() string { return turn.SubagentSession(a.Turn, a.Call.ID) }

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
	return checkMessage(a.Message)
}

// priority is that of the caller's activities.
func (a agentTurn) priority() temporal.Priority {
	p := Priority(a.Tenant, a.Message.Background)
	p.PriorityKey--
	return p
}

// run runs the agent's turn, and waits for its end. It returns the turn's working time, and why the turn failed as far
// as Temporal knows: the journal has the rest. A subagent that an earlier run of the caller has started, before a reset,
// goes on; when it has ended, the next one finds its answer.
func (a agentTurn) run(ctx workflow.Context) (busy time.Duration, problem string) {
	session, id := a.session(), WorkflowID(a.Tenant, a.session())
	// A turn that ends while its subagents run asks them to stop, and each of them settles its own calls.
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
	for pause := firstSubagentPause; ; pause = min(2*pause, maxSubagentPause) {
		var result Result
		err := workflow.ExecuteChildWorkflow(ctx, TurnWorkflow, Input{
			Version: WireVersion, Session: session, Tenant: a.Tenant, Message: &a.Message, Agent: a.name(), Asks: a.Asks,
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

// BackgroundID returns the ID of the workflow that runs the turn of a subagent in the background and sends its answer to
// the caller's session.
func BackgroundID(tenant, session string) string {
	return WorkflowID(tenant, turn.SubagentAnswerID(session))
}

// runInBackground starts a delivery that runs the agent's turn and sends its answer to the caller's session, and
// settles the call. The delivery outlives this turn, which goes on meanwhile: what the agent may use is taken from what
// is left of the turn's limits.
func (r *run) runInBackground(ctx workflow.Context, c *callState, tool turn.Tool) (CallResult, error) {
	switch share := r.agents.Background; {
	case !share.Enough():
		return CallResult{}, nothingLeft()
	case len(r.progress.Background) >= maxBackground:
		return CallResult{}, temporal.NewApplicationError(fmt.Sprintf("the turn has called %d agents in the background, "+
			"which is the maximum", maxBackground), string(turn.CodePolicyDenied))
	}
	r.progress.Background = append(r.progress.Background, turn.SubagentSession(r.turnID, c.call.ID))
	begun, subagent, err := r.claimAgent(ctx, c, tool, r.agents.Background)
	if err != nil {
		return CallResult{}, err
	}
	r.agents.granted = r.agents.granted.Add(begun.Granted.All())
	if begun.Receipt != nil {
		return *begun.Receipt, nil
	}
	subagent.Agent, subagent.Asks = r.progress.Config.Agent, true
	own, _ := workflow.NewDisconnectedContext(ctx) // a cancelled one would stop the delivery: see stopBackground
	options := workflow.WithChildOptions(own, workflow.ChildWorkflowOptions{
		WorkflowID:            BackgroundID(subagent.Tenant, subagent.session()),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:              subagent.priority(),
		StaticSummary:         Summary(subagent.name() + " for " + subagent.Session + ", in the background"),
	})
	err = workflow.ExecuteChildWorkflow(options, DeliverWorkflow, DeliverInput{
		Version: WireVersion, Session: subagent.Session, Tenant: subagent.Tenant, Agent: subagent.Agent, Call: &subagent,
	}).GetChildWorkflowExecution().Get(ctx, nil)
	var started *temporal.ChildWorkflowExecutionAlreadyStartedError
	switch {
	case ctx.Err() != nil:
		return CallResult{}, ctx.Err()
	case err != nil && !errors.As(err, &started): // which an earlier run of this turn has done, before a reset
		return CallResult{}, err
	}
	return runJournal(ctx, Activities.SettleSubagent, SettleSubagentInput{CallInput: subagent.CallInput, Started: true},
		"settle "+summary(subagent.CallInput))
}

// stopBackground stops the agents in the background with these sessions. A stopped turn stops its own even if the journal
// is unavailable, and then those of the session's earlier turns, which Finish reports.
func (r *run) stopBackground(ctx workflow.Context, sessions []string) {
	for _, session := range sessions {
		stop(ctx, BackgroundID(r.in.Tenant, session))
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
	receipt, err := runJournal(settling, Activities.SettleSubagent,
		SettleSubagentInput{CallInput: a.CallInput, Problem: problem, Deliver: true}, "settle "+summary(a.CallInput))
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
