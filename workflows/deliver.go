package workflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// DeliverWorkflow is the workflow type that takes a message to a session that others write to as well.
const DeliverWorkflow = "Deliver"

// Deliveries is the port through which the Deliver workflow reaches the world.
type Deliveries interface {
	// HandOver sends the message, where its session has not taken it yet, and stays for HandOverInput.Patience to see the
	// turn that took it come to its end. It may be repeated: the session is told once.
	HandOver(context.Context, HandOverInput) (DeliverResult, error)
}

// DeliverInput starts a delivery. Session and the message's text are needed.
type DeliverInput struct {
	Version int    `json:"v,omitempty"`
	Session string `json:"session"`
	Tenant  string `json:"tenant,omitempty"` // whose session it is; empty: the default tenant
	// Message: an empty ID is DeliveryID's.
	Message Message        `json:"message"`
	Agent   string         `json:"agent,omitempty"`
	Limits  *LimitsRequest `json:"limits,omitempty"` // of the turn that begins with the message, if one does
	// Since is when the first run of the chain began. Clients leave it out.
	Since time.Time `json:"since,omitzero"`

	refusal *turn.Error
}

// DeliverResult is what became of a message. State is that of the turn that took it; empty while none has.
type DeliverResult struct {
	Session      string            `json:"session"`
	MessageID    string            `json:"message_id"`
	Turn         string            `json:"turn,omitempty"`
	State        turn.State        `json:"state,omitempty"`
	FinishReason turn.FinishReason `json:"finish_reason,omitempty"`
	// Undelivered: no turn has taken the message and none of the session runs. One that was to begin with it could not, or
	// was ended from outside before that.
	Undelivered bool `json:"untaken,omitempty"`
}

// HandOverInput asks for a message to be handed over, or for what became of it.
type HandOverInput struct {
	Version int            `json:"v"`
	Session string         `json:"session"`
	Tenant  string         `json:"tenant,omitempty"`
	Message Message        `json:"message"`
	Agent   string         `json:"agent,omitempty"`
	Limits  *LimitsRequest `json:"limits,omitempty"`
	// Patience is how long the activity stays with a turn that is not over.
	Patience time.Duration `json:"patience"`
}

// DeliveryID is the ID of the message that a run of Deliver takes to its session, unless it was given another.
func DeliveryID(workflowID, runID string) string {
	if id := workflowID + "/" + runID; len(id) <= maxMessageID {
		return id
	}
	return runID // of itself unique
}

// The rhythm of a delivery. A turn may wait for people for days: the workflow looks for its end with short activities, and
// between them sleeps a fifth of the time that has passed, so that it notices the end neither often nor late.
const (
	handOverPatience = 20 * time.Second
	handOverRoom     = time.Minute // for a locked journal and a busy server
	handOverAttempts = 10
	sleepLeast       = 2 * time.Second
	sleepMost        = 5 * time.Minute
	looksARun        = 200 // about 2,200 events
	// A message that no turn has taken is sent again, and after so many times in a row given up: whatever keeps its turns
	// from beginning does not pass by itself. beginPatience is for a turn that fails to begin.
	untakenMost   = 5
	beginPatience = 2 * time.Second
)

// Deliver takes a message to a session, and is over when the turn that took it is: what starts it again and again, a
// schedule, sees whether the last time is over. The message begins a turn, or joins the one that runs. A delivery that is
// cancelled leaves the turn alone.
func Deliver(ctx workflow.Context, in DeliverInput) (DeliverResult, error) {
	info := workflow.GetInfo(ctx)
	if in.Message.ID == "" {
		in.Message.ID = DeliveryID(info.WorkflowExecution.ID, info.OriginalRunID)
	}
	refused := in.check()
	if refused == nil {
		refused = in.excess(info)
	}
	switch {
	case refused != nil && ctx.Err() != nil:
		return DeliverResult{}, ctx.Err()
	case refused != nil:
		return DeliverResult{}, temporal.NewNonRetryableApplicationError(refused.Message, string(refused.Code), nil)
	}
	patience := time.Duration(0)
	if in.Since.IsZero() {
		in.Since, patience = workflow.Now(ctx), handOverPatience
	}
	untaken := 0
	for range looksARun {
		res, err := in.handOver(ctx, patience)
		if err != nil || res.State.Terminal() {
			return res, err
		}
		if untaken++; !res.Undelivered {
			untaken = 0
		}
		if untaken == untakenMost {
			return res, in.givenUp()
		}
		patience = 0
		if res.Turn == "" {
			patience = beginPatience
		}
		workflow.SetCurrentDetails(ctx, res.details())
		if err := workflow.Sleep(ctx, sleepAfter(workflow.Now(ctx).Sub(in.Since))); err != nil {
			return DeliverResult{}, err
		}
	}
	return DeliverResult{}, workflow.NewContinueAsNewError(ctx, DeliverWorkflow, in)
}

// sleepAfter is the pause before the next look, so long after the first.
func sleepAfter(passed time.Duration) time.Duration {
	return min(max(passed/5, sleepLeast), sleepMost)
}

func (in DeliverInput) handOver(ctx workflow.Context, patience time.Duration) (res DeliverResult, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: handOverPatience + handOverRoom,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			MaximumAttempts: handOverAttempts, NonRetryableErrorTypes: nonRetryable,
		},
		Summary: "to session " + turn.Truncate(in.Session, 120),
	})
	err = workflow.ExecuteActivity(ctx, activityName(Deliveries.HandOver), HandOverInput{
		Session: in.Session, Tenant: in.Tenant, Message: in.Message, Agent: in.Agent, Limits: in.Limits, Patience: patience,
	}).Get(ctx, &res)
	return res, err
}

// givenUp says what to do about a message with which no turn begins.
func (in DeliverInput) givenUp() error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
		"the message was sent to session %s %d times and no turn has taken it; the last runs of the workflow %s say why: mend that and send it again",
		turn.Truncate(in.Session, 200), untakenMost, turn.Truncate(WorkflowID(in.Tenant, in.Session), 300)), string(turn.CodeInternal), nil)
}

// check refuses a delivery that no session would take.
func (in DeliverInput) check() *turn.Error {
	if in.refusal != nil {
		return in.refusal
	}
	if in.Version > WireVersion {
		return invalid("the delivery is of version %d and this worker knows up to %d; update the worker", in.Version, WireVersion)
	}
	if err := errors.Join(CheckSession(in.Session), CheckTenant(in.Tenant)); err != nil {
		return invalid("%s", err.Error())
	}
	if _, err := in.Limits.Apply(turn.DefaultLimits()); err != nil {
		return invalid("%s", err.Error())
	}
	return checkMessage(in.Message)
}

// details say in the Web UI what is waited for.
func (r DeliverResult) details() string {
	session := turn.Truncate(r.Session, 200)
	if r.Turn == "" {
		return fmt.Sprintf("session %s has the message, and no turn has taken it yet", session)
	}
	return fmt.Sprintf("turn %s of session %s has the message and is %s", r.Turn, session, r.State)
}
