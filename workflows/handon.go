package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// A turn that ends may have accepted messages that it did not use. A run under the same workflow ID cannot begin before
// this one closes, and if the run continued as a new one, a client that waits for this turn would get the next turn's
// result. So the turn starts a Deliver workflow before it closes, which sends the messages to the session again. The
// journal recognizes a message that the session already has. It also keeps the messages, so that a newer message that
// reaches the session before the delivery does not overtake them.

// HandOnID returns the ID of the Deliver workflow that sends the messages that a turn left. The parameters are the IDs
// of the turn's workflow and of the turn.
func HandOnID(workflowID, turnID string) string { return workflowID + "/left/" + turnID }

// handOnPause is the pause before the next try to start a delivery whose workflow ID is in use. The delivery of an
// earlier run of this turn has this ID, if the turn was reset. The next try uses an ID of this run.
const handOnPause = time.Second

// deliverLeft starts a delivery of the messages that the turn accepted and did not use, and returns when the delivery
// has started. It records them in the journal first, and only logs a failure of that. e is the result with which the
// turn ended.
func (r *run) deliverLeft(ctx workflow.Context, e turn.Result, left []Message) error {
	if len(left) == 0 {
		return nil
	}
	r.stopping = true // a message that arrived from now on would not be in left
	agent := cmp.Or(r.progress.Config.Agent, r.in.Agent)
	left = slices.Clone(left)
	for i := range left {
		left[i].Late, left[i].Agent = true, cmp.Or(left[i].Agent, agent)
	}
	// The turn is settled; this Finish only records the messages in the journal.
	if _, err := runJournal(ctx, Activities.Finish, FinishInput{Tenant: r.in.Tenant, FinishInput: turn.FinishInput{
		Session: r.session, Turn: r.turnID, Left: left, Result: e, Counters: r.progress.Counters,
	}}, "keep what the turn leaves"); err != nil {
		workflow.GetLogger(ctx).Warn("the journal does not have the messages that the turn leaves, so a later message may "+
			"come before them", "turn", r.turnID, "error", err)
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            HandOnID(r.id, r.turnID),
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Priority:              r.priority(false),
		StaticSummary:         Summary(fmt.Sprintf("messages for the next turn of %s: %d", r.session, len(left))),
	})
	for {
		err := workflow.ExecuteChildWorkflow(ctx, DeliverWorkflow, DeliverInput{
			Version: WireVersion, Session: r.session, Tenant: r.in.Tenant, Agent: agent, Left: left,
		}).GetChildWorkflowExecution().Get(ctx, nil)
		var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
		if !errors.As(err, &taken) {
			return err
		}
		// That delivery may wait for this run to end. The session recognizes a message that both send.
		if r.progress.Config.Version >= turn.OwnTurnVersion {
			var run string // recorded, because a later reset replays it in another run
			if err := workflow.SideEffect(ctx, func(workflow.Context) any { return r.runID }).Get(&run); err != nil {
				return err
			}
			ctx = workflow.WithWorkflowID(ctx, HandOnID(r.id, r.turnID)+"/"+run)
		}
		if err := workflow.Sleep(ctx, handOnPause); err != nil {
			return err
		}
	}
}

// sendLeft sends the messages in Left to their session, in order, and completes when turns have accepted all of them.
// The first message begins a turn, unless another client's message has begun one meanwhile. If the session refuses a
// message permanently, sendLeft logs that and goes on; the message is then missing in the result's Accepted.
func (in DeliverInput) sendLeft(ctx workflow.Context) (DeliverResult, error) {
	if in.Since.IsZero() {
		in.Since = workflow.Now(ctx)
	}
	out := DeliverResult{Session: in.Session, Accepted: in.Accepted}
	for checks := 0; len(in.Left) > 0; checks++ {
		if checks == checksPerRun {
			in.Message, in.Accepted = Message{}, out.Accepted
			return out, nextRun(ctx, DeliverWorkflow, in)
		}
		in.Message = in.Left[0]
		res, err := in.handOver(ctx, 0)
		turnID, accepted := res.Accepted[in.Message.ID]
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			workflow.GetLogger(ctx).Error("a message is not delivered", "session", in.Session, "message", in.Message.ID,
				"error", err)
		case !accepted: // the session is too busy at the moment: send the same message again
			if err := workflow.Sleep(ctx, sleepAfter(workflow.Now(ctx).Sub(in.Since))); err != nil {
				return out, err
			}
			continue
		default:
			if out.Accepted == nil {
				out.Accepted = map[string]string{}
			}
			out.Accepted[in.Message.ID] = turnID
		}
		in.Left = in.Left[1:]
	}
	return out, nil
}

// checkLeft rejects messages in Left that cannot come from a turn, which gives each an ID and marks it as late.
func (in DeliverInput) checkLeft() *turn.Error {
	for _, m := range in.Left {
		if err := checkMessage(m); err != nil {
			return err
		}
		if m.ID == "" || !m.Late {
			return invalid("left is for the workflow itself; leave it out of the input")
		}
	}
	return nil
}
