package call

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/internal/expiry"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	// maxWaitingCalls bounds the calls of this worker that wait for a user at the same time, because each occupies a slot
	// for activities: see Options.Slots.
	maxWaitingCalls = 8
	// withdrawWithin bounds the withdrawal of an elicitation.
	withdrawWithin = 5 * time.Second
)

// elicitor asks the user for the server of one attempt of a call, which the server holds open meanwhile. It asks one
// elicitation at a time.
type elicitor struct {
	*Runner
	ctx   context.Context // of the activity: its end is that of the attempt
	in    workflows.CallInput
	clock *attempt.Clock
	// update sends the update Elicit.
	update func(context.Context, workflows.ElicitInput) (request string, err error)
	asked  atomic.Bool // the user was asked
	mu     sync.Mutex
	left   time.Duration // what remains of the tool's ElicitationTimeout for further elicitations
}

// elicitor returns the elicitor of an attempt whose server may elicit in the middle of the call.
func (r *Runner) elicitor(ctx context.Context, in workflows.CallInput, clock *attempt.Clock) *elicitor {
	e := &elicitor{Runner: r, ctx: ctx, in: in, clock: clock, left: in.Tool.ElicitationTimeout}
	e.update = e.sendUpdate
	return e
}

// elicit opens a request for q and returns the user's response: see turn.ToolRequest.Elicit. The response is also a
// cancel if the tool's ElicitationTimeout is over, if too many calls of this worker wait, or if the worker stops.
func (e *elicitor) elicit(q turn.Elicitation, end <-chan struct{}) turn.ElicitationResponse {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.waitingCalls.TryAcquire(1) {
		attempt.Warn(e.ctx, "cancelled an elicitation; the user was not asked", "reason", "too many calls wait")
		return turn.Decision{}.ResponseTo(q)
	}
	defer e.waitingCalls.Release(1)
	defer e.clock.Pause()()
	began := time.Now()
	defer func() { e.left -= time.Since(began) }()
	// The workflow lets the request expire first, so that no response comes after this wait.
	ctx, cancel := expiry.WithTimeout(e.ctx, e.left+workflows.CallRoom/2)
	defer cancel()
	go func() {
		select {
		case <-end:
		case <-activity.GetWorkerStopChannel(e.ctx):
		case <-ctx.Done():
		}
		cancel()
	}()
	q.Message = e.secrets.String(q.Message)
	decision, err := e.await(ctx, q)
	if err != nil && decision.Response == nil {
		attempt.Warn(e.ctx, "cancelled an elicitation", "reason", err)
	}
	return decision.ResponseTo(q)
}

// await asks the workflow to open a request for q, and waits until the journal has its decision. If it fails, the
// request is closed. The decision is then the zero Decision, unless the user's response came first.
func (e *elicitor) await(ctx context.Context, q turn.Elicitation) (turn.Decision, error) {
	request, err := e.update(ctx, workflows.ElicitInput{Elicitation: &q, Within: e.left})
	if temporal.IsApplicationError(err) { // the workflow has opened no request
		return turn.Decision{}, err
	}
	if err == nil {
		e.asked.Store(true)
		var decision turn.Decision
		if decision, err = e.decision(ctx, request); err == nil {
			return decision, nil
		}
	}
	return e.withdraw(request), err
}

// decision waits until the journal has the decision of a request.
func (e *elicitor) decision(ctx context.Context, request string) (turn.Decision, error) {
	tenantJournal := e.journal.Tenant(e.in.Tenant)
	for {
		changed := tenantJournal.Changed(ctx, journal.Topic{Turn: e.in.Turn}) // before the read, so that no decision is missed
		list, err := attempt.RetryUntilAvailable(ctx, e.left, func(ctx context.Context) ([]turn.Request, error) {
			return tenantJournal.Requests(ctx, e.in.Turn)
		})
		if err != nil {
			return turn.Decision{}, err
		}
		for _, r := range list {
			if r.ID == request && r.Decision != nil {
				return *r.Decision, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return turn.Decision{}, context.Cause(ctx)
		}
	}
}

// withdraw closes the request that await has opened, because the server waits no longer although the call may go on:
// the user's later response would be accepted without effect. If the response came first, withdraw returns its
// decision. The end of the attempt closes the request, too.
func (e *elicitor) withdraw(request string) (decision turn.Decision) {
	if e.ctx.Err() != nil {
		return decision
	}
	ctx, cancel := context.WithTimeout(e.ctx, withdrawWithin)
	defer cancel()
	_, err := e.update(ctx, workflows.ElicitInput{})
	if err == nil && request != "" {
		decision, err = e.decision(ctx, request)
	}
	if err != nil && !temporal.IsApplicationError(err) {
		attempt.Warn(e.ctx, "withdrawing an elicitation failed; its request stays open until the call ends", "cause", err)
	}
	return decision
}

// sendUpdate sends the update Elicit for this attempt to its workflow.
func (e *elicitor) sendUpdate(ctx context.Context, in workflows.ElicitInput) (request string, err error) {
	in.Call, in.Attempt = e.in.Call.ID, e.in.Attempt
	execution := activity.GetInfo(e.ctx).WorkflowExecution
	handle, err := activity.GetClient(e.ctx).UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: execution.ID, RunID: execution.RunID, UpdateName: workflows.ElicitUpdate, Args: []any{in},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &request)
	}
	return request, err
}

// hasAsked reports whether the user was asked during the attempt.
func (e *elicitor) hasAsked() bool {
	return e != nil && e.asked.Load()
}
