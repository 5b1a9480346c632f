package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// DeliverWorkflow is the workflow type that sends messages to a session. Other callers may send to it, too.
const DeliverWorkflow = "Deliver"

// Deliveries is the port through which the Deliver workflow performs effects.
type Deliveries interface {
	// HandOver sends the message, unless its session already has it, and then waits up to HandOverInput.MaxWait for the
	// end of the turn that got the message. It is idempotent: the session gets the message once.
	HandOver(context.Context, HandOverInput) (DeliverResult, error)
}

// DeliverInput starts a delivery. Session and the message's text are required.
type DeliverInput struct {
	Version int    `json:"v,omitempty"`
	Session string `json:"session"`
	Tenant  string `json:"tenant,omitempty"` // the session's tenant; empty: the default tenant
	// Message is the message to deliver, or the subagent's task if Call is set. An empty ID is replaced by that of
	// DeliveryID.
	Message Message        `json:"message"`
	Agent   string         `json:"agent,omitempty"`
	Limits  *LimitsRequest `json:"limits,omitempty"` // of the turn that begins with the message, if one does
	// Call is set if the delivery runs a subagent in the background: it runs the subagent's turn first, and then delivers
	// the answer as Message. Clients leave it unset.
	Call *CallInput `json:"call,omitempty"`
	// Left are the messages that a turn accepted and did not use, without those that earlier runs of the delivery have
	// sent. If Left is set, Message is empty. Accepted are the turns that have accepted messages of the delivery, by
	// message ID. Clients leave both unset.
	Left     []Message         `json:"left,omitempty"`
	Accepted map[string]string `json:"accepted,omitempty"`
	// Since is when the first run of the chain began. Clients leave it unset.
	Since time.Time `json:"since,omitzero"`

	refusal *turn.Error // why the input cannot be read
}

// DeliverResult is the state of a delivery. State is that of the turn that has the message; it is empty if no turn has
// it yet.
type DeliverResult struct {
	Session      string            `json:"session"`
	MessageID    string            `json:"message_id"`
	Turn         string            `json:"turn,omitempty"`
	State        turn.State        `json:"state,omitempty"`
	FinishReason turn.FinishReason `json:"finish_reason,omitempty"`
	// Accepted are the turns that have accepted messages, by message ID. A turn may not have used its message yet.
	Accepted map[string]string `json:"accepted,omitempty"`
	// Undelivered means that no turn has the message and the session has no running turn: a turn that was started with the
	// message failed to begin, or was ended from outside before it began.
	Undelivered bool `json:"undelivered,omitempty"`
	// Kept means that the message is a subagent's answer that begins no turn: the session's next turn gets it.
	Kept bool `json:"kept,omitempty"`
}

// HandOverInput is the input of HandOver.
type HandOverInput struct {
	Session string         `json:"session"`
	Tenant  string         `json:"tenant,omitempty"`
	Message Message        `json:"message"`
	Agent   string         `json:"agent,omitempty"`
	Limits  *LimitsRequest `json:"limits,omitempty"`
	// MaxWait is how long the activity waits for a running turn to end.
	MaxWait time.Duration `json:"max_wait"`
	// Acknowledged means that a turn has accepted the message before, so HandOver waits for the end of any outage.
	Acknowledged bool `json:"acknowledged,omitempty"`
}

// DeliveryID returns the default ID of the message of a Deliver workflow. runID is that of the workflow's first run.
func DeliveryID(workflowID, runID string) string {
	if id := workflowID + "/" + runID; len(id) <= maxMessageID {
		return id
	}
	return runID // unique by itself
}

// The timing of a delivery. A turn may wait days for a decision. The workflow checks with short activities whether the
// turn has ended. Before each check it sleeps for a fifth of the time since the delivery began (see sleepAfter), so a
// long wait needs few checks.
const (
	handOverWait = 20 * time.Second // HandOverInput.MaxWait of the first check
	handOverRoom = time.Minute      // for a locked journal and a busy server
	minSleep     = 2 * time.Second
	maxSleep     = 5 * time.Minute
	checksPerRun = 200 // about 2,200 events of history
	// A message that no turn has is sent again. After maxUndelivered consecutive attempts the delivery fails, because an
	// operator must fix the problem that keeps turns from beginning. beginWait is how long one check waits for a turn to
	// begin.
	maxUndelivered = 5
	beginWait      = 2 * time.Second
)

// Deliver sends a message to a session and completes when the turn that got the message ends, so a schedule that starts
// Deliver can skip a start while the previous turn runs. The message begins a turn, or is merged into the running one.
// If the session keeps the message for its next turn (DeliverResult.Kept), Deliver completes at once. Cancelling a
// delivery does not affect the turn that got the message.
//
// With Call, Deliver first runs the subagent's turn, whose answer is the message. With Left, it instead sends these
// messages and completes when turns have accepted them.
func Deliver(ctx workflow.Context, in DeliverInput) (DeliverResult, error) {
	info := workflow.GetInfo(ctx)
	if len(in.Left) == 0 && in.Call == nil {
		in.Message.Background = true
		in.Message.ID = cmp.Or(in.Message.ID, DeliveryID(info.WorkflowExecution.ID, info.OriginalRunID))
	}
	if err := in.validate(ctx); err != nil {
		return DeliverResult{}, err
	}
	if in.Call != nil {
		answer, err := in.Call.answer(ctx, in.Message)
		if err != nil {
			return DeliverResult{}, err
		}
		in.Message, in.Call = answer, nil // a next run of the chain only sends the answer
		in.Message.Background = true
	}
	if len(in.Left) > 0 {
		return in.sendLeft(ctx)
	}
	maxWait := time.Duration(0)
	if in.Since.IsZero() { // the first run of the chain: most turns end during the first check
		in.Since, maxWait = workflow.Now(ctx), handOverWait
	}
	undelivered := 0 // consecutive checks with the result Undelivered
	for range checksPerRun {
		res, err := in.handOver(ctx, maxWait)
		res.Accepted = nil // only a delivery with Left reports it
		if err != nil || res.State.Terminal() || res.Kept {
			return res, err
		}
		if undelivered++; !res.Undelivered {
			undelivered = 0
		}
		if undelivered == maxUndelivered {
			return res, in.givenUp()
		}
		maxWait = 0
		if res.Turn == "" {
			maxWait = beginWait
		}
		workflow.SetCurrentDetails(ctx, res.details())
		pause := sleepAfter(workflow.Now(ctx).Sub(in.Since))
		slept := workflow.NewTimerWithOptions(ctx, pause, timer("until the next check"))
		err = workflow.Await(ctx, func() bool { return slept.IsReady() || targetChanged(ctx) })
		if err != nil {
			return DeliverResult{}, err
		}
		if targetChanged(ctx) { // continue on the new version of the worker
			break
		}
	}
	return DeliverResult{}, nextRun(ctx, DeliverWorkflow, in)
}

// validate returns an error if the input is not valid or the delivery has run too often. A cancelled delivery reports its
// cancellation instead.
func (in *DeliverInput) validate(ctx workflow.Context) error {
	refused := in.check()
	if refused == nil {
		refused = in.checkBounds(workflow.GetInfo(ctx))
	}
	switch {
	case refused != nil && ctx.Err() != nil:
		return ctx.Err()
	case refused != nil:
		return temporal.NewNonRetryableApplicationError(refused.Message, string(refused.Code), nil)
	}
	return nil
}

// sleepAfter returns the pause before the next check. passed is the time since the first check.
func sleepAfter(passed time.Duration) time.Duration {
	return min(max(passed/5, minSleep), maxSleep)
}

// handOver runs HandOver for in.Message. maxWait is how long the activity waits for the end of the message's turn.
func (in DeliverInput) handOver(ctx workflow.Context, maxWait time.Duration) (res DeliverResult, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: handOverWait + handOverRoom,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			MaximumAttempts: journalAttempts, NonRetryableErrorTypes: nonRetryable,
		},
		Summary: "to session " + turn.Truncate(in.Session, 120),
	})
	err = workflow.ExecuteActivity(ctx, activityName(Deliveries.HandOver), HandOverInput{
		Session: in.Session, Tenant: in.Tenant, Message: in.Message, Agent: in.Agent, Limits: in.Limits, MaxWait: maxWait,
		Acknowledged: len(in.Left) > 0,
	}).Get(ctx, &res)
	return res, err
}

// givenUp returns the error of a delivery whose message was sent maxUndelivered times without a turn that accepted it.
func (in DeliverInput) givenUp() error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
		"the message was sent to session %s %d times and no turn accepted it; see the last runs of workflow %s, fix the "+
			"problem and send the message again",
		turn.Truncate(in.Session, 200), maxUndelivered, turn.Truncate(WorkflowID(in.Tenant, in.Session), 300)),
		string(turn.CodeInternal), nil)
}

// check rejects an invalid input. If Left is set, it checks that instead of Message.
func (in DeliverInput) check() *turn.Error {
	if in.refusal != nil {
		return in.refusal
	}
	if err := checkVersion(in.Version); err != nil {
		return err
	}
	if err := errors.Join(turn.CheckSession(in.Session), CheckTenant(in.Tenant)); err != nil {
		return invalid("%s", err.Error())
	}
	if _, err := in.Limits.Apply(turn.DefaultLimits()); err != nil {
		return invalid("%s", err.Error())
	}
	if in.Call != nil {
		if err := in.checkCall(); err != nil {
			return err
		}
	} else if len(in.Left) > 0 {
		return in.checkLeft()
	}
	return checkMessage(in.Message)
}

// details returns the text that the Web UI shows while the delivery waits.
func (r DeliverResult) details() string {
	session := turn.Truncate(r.Session, 200)
	if r.Turn == "" {
		return fmt.Sprintf("no turn of session %s has the message yet", session)
	}
	return fmt.Sprintf("turn %s of session %s has the message and is %s", r.Turn, session, r.State)
}
