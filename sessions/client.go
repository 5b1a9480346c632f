package sessions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Errors that callers tell apart. What a session's workflow refuses is a *turn.Error with its code.
var (
	// ErrNotRunning: the session has no turn that runs.
	ErrNotRunning = errors.New("no turn of this session is running")
	// ErrNoWorker: Temporal has the request and no worker has answered it in time. It may be asked again.
	ErrNoWorker = errors.New("no worker has answered in time")
)

// Options say where sessions run.
type Options struct {
	TaskQueue string
	Agent     string // shown in Temporal's indexes
	// Tenant is whose sessions they are, empty for the default tenant. A client reaches no other tenant's, whatever their
	// names. See workflows.WorkflowID.
	Tenant string
	// Blobs takes texts that are too long to travel, and returns their hash: the journal's PutBlob.
	Blobs func(ctx context.Context, mediaType string, b []byte) (string, error)
}

// Client talks to sessions. It is safe for use by many goroutines.
type Client struct {
	temporal client.Client
	options  Options
}

// New makes a client of a connection, which stays the caller's.
func New(c client.Client, o Options) *Client { return &Client{temporal: c, options: o} }

// Request is a message for a session.
type Request struct {
	Session string // empty: a new one
	// Message: an empty ID is filled in. A request that may be repeated by its caller brings its own.
	Message workflows.Message
	Agent   string
	Limits  *workflows.LimitsRequest
	// Alone refuses to join a running turn: the session is busy then.
	Alone bool
}

// Accepted names where a message went.
type Accepted struct {
	Session   string
	MessageID string
	// Turn is the one that began with the message, or that was running when it came.
	Turn string
	// Joined: Turn was running. It takes the message before its next inference, or leaves it to the session's next turn.
	Joined bool
}

// inlineText is how much of a text travels through the workflow, in bytes as it travels: as JSON, in which some characters
// have six. Temporal refuses payloads over 2 MiB.
const inlineText = 256 << 10

// attemptWithin bounds one request: the 11th update in flight hangs instead of failing, and so does one without a worker.
const attemptWithin = 10 * time.Second

// Send hands a message to its session: it begins a turn, or joins the one that runs. When it returns without an error
// the message is accepted and will be answered once. After an error it may be sent again, under the same ID.
func (c *Client) Send(ctx context.Context, r Request) (Accepted, error) {
	if r.Session == "" {
		r.Session = NewID()
	}
	if r.Message.ID == "" {
		r.Message.ID = "m-" + strings.ToLower(rand.Text()[:16])
	}
	a := Accepted{Session: r.Session, MessageID: r.Message.ID}
	var err error
	if r.Message.Text, r.Message.Blob, err = c.pack(ctx, r.Message.Text, r.Message.Blob); err != nil {
		return a, err
	}
	run, err := c.begin(ctx, r)
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil {
		a.Turn = run.GetRunID()
		return a, nil
	}
	if !errors.As(err, &running) {
		return a, fmt.Errorf("starting the turn: %w", err)
	}
	if r.Alone {
		return a, turn.Errorf(turn.CodeSessionBusy, err, "a turn of session "+r.Session+" is running")
	}
	var res workflows.SendResult
	err = c.persist(ctx, func(ctx context.Context) error { return c.join(ctx, r, &res) })
	a.Turn, a.Joined = res.Turn, res.Joined
	return a, err
}

// NewID makes the ID of a new session.
func NewID() string { return "s-" + strings.ToLower(rand.Text()[:12]) }

// pack puts a long text into the journal and names it.
func (c *Client) pack(ctx context.Context, text, blob string) (string, string, error) {
	if blob != "" || c.options.Blobs == nil {
		return text, blob, nil
	}
	if encoded, err := json.Marshal(text); err == nil && len(encoded) <= inlineText {
		return text, blob, nil
	}
	hash, err := c.options.Blobs(ctx, "text/plain", []byte(text))
	if err != nil {
		return "", "", fmt.Errorf("putting the message into the journal: %w", err)
	}
	return "", hash, nil
}

// begin starts a turn with its message. It costs two events less than an update, and needs no worker to be accepted.
func (c *Client) begin(ctx context.Context, r Request) (client.WorkflowRun, error) {
	o := c.start(r.Session, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
	// Without it the SDK takes the turn that runs for the one that was asked for, and the message is lost.
	o.WorkflowExecutionErrorWhenAlreadyStarted = true
	m := r.Message
	m.After = false
	return c.temporal.ExecuteWorkflow(ctx, o, workflows.TurnWorkflow, workflows.Input{
		Version: workflows.WireVersion, Session: r.Session, Tenant: c.options.Tenant, Message: &m, Agent: r.Agent, Limits: r.Limits,
	})
}

// join hands the message to the turn that runs, or to a new one where that has just ended.
func (c *Client) join(ctx context.Context, r Request, res *workflows.SendResult) error {
	start := c.temporal.NewWithStartWorkflowOperation(c.start(r.Session, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING),
		workflows.TurnWorkflow, workflows.Input{Version: workflows.WireVersion, Session: r.Session, Tenant: c.options.Tenant, Agent: r.Agent, Limits: r.Limits})
	h, err := c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{UpdateID: r.Message.ID, WorkflowID: c.workflowID(r.Session), UpdateName: workflows.SendUpdate,
			Args: []any{r.Message}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = h.Get(ctx, res)
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return fmt.Errorf("%w: %w", errClosing, err)
	}
	return err
}

// errClosing: the run that was to be joined has closed meanwhile. The next attempt begins one.
var errClosing = errors.New("the turn has just ended")

// workflowID is that of a session of this client's tenant.
func (c *Client) workflowID(session string) string {
	return workflows.WorkflowID(c.options.Tenant, session)
}

func (c *Client) start(session string, conflict enumspb.WorkflowIdConflictPolicy) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: c.workflowID(session), TaskQueue: c.options.TaskQueue, WorkflowIDConflictPolicy: conflict,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         "Everturn turn of session " + turn.Cut(session, 80),
		StaticDetails:         "One user request carried to its answer. Its transcript is in the journal: `starter show " + turn.Cut(session, 80) + "`.",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.AttrSession.ValueSet(session), workflows.AttrAgent.ValueSet(c.options.Agent),
			workflows.AttrState.ValueSet(string(turn.StateRunning))),
	}
}

// Approve decides about a call that the session's turn waits with. Deciding the same again changes nothing; another
// decision is refused.
func (c *Client) Approve(ctx context.Context, session string, a workflows.Approval) (res workflows.ApprovalResult, err error) {
	err = c.update(ctx, session, workflows.ApproveUpdate, a, &res)
	return res, err
}

// Answer answers a question that the session's turn waits with: the model's with a text, and what the server of a tool asks
// with a Reply, whose Key may be left out. A reply that no turn would take is refused with turn.CodeConfigInvalid.
func (c *Client) Answer(ctx context.Context, session string, a workflows.Answer) (res workflows.AnswerResult, err error) {
	if err = checkReply(a); err != nil {
		return res, err
	}
	if a.Text, a.Blob, err = c.pack(ctx, a.Text, a.Blob); err != nil {
		return res, err
	}
	err = c.update(ctx, session, workflows.AnswerUpdate, a, &res)
	return res, err
}

// Stop ends the session's turn: it is settled within moments, whatever it is doing, and what was done is kept. It
// returns when Temporal has the stop. ErrNotRunning.
func (c *Client) Stop(ctx context.Context, session string) error {
	err := c.temporal.CancelWorkflow(ctx, c.workflowID(session), "")
	var over *serviceerror.NotFound
	if errors.As(err, &over) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("stopping the turn: %w", err)
	}
	return nil
}

// update asks the running turn for something. What it is refused because nothing waits for it is asked once more: a
// worker that takes a turn over hears of the request before it has come to where the turn waits, and has when it is
// asked again.
func (c *Client) update(ctx context.Context, session, name string, arg, res any) error {
	err := c.request(ctx, session, name, arg, res)
	var no *turn.Error
	if errors.As(err, &no) && no.Code == turn.CodeNotWaiting {
		err = c.request(ctx, session, name, arg, res)
	}
	return err
}

// request sends an update, under one ID however often it is tried: it is done once.
func (c *Client) request(ctx context.Context, session, name string, arg, res any) error {
	id := rand.Text()
	return c.persist(ctx, func(ctx context.Context) error {
		h, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: c.workflowID(session), UpdateID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return h.Get(ctx, res)
	})
}
