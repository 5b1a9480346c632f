package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// SendInput is a message for a session.
type SendInput struct {
	// Session may be new. Empty means a new session with a random ID.
	Session string
	// Message needs a text. An empty ID is filled in: a caller that may repeat the request after a crash chooses the ID.
	// After asks for a turn of its own if a turn is running.
	Message turn.UserMessage
	Agent   string                   // empty: the worker's
	Limits  *workflows.LimitsRequest // nil: the worker's
	// Alone refuses to merge the message into a running turn: the error is ErrBusy.
	Alone bool
}

// inlineText is the longest text that travels through the workflow, in bytes of JSON. Temporal refuses payloads over
// 2 MiB.
const inlineText = 256 << 10

// Send sends a message to a session. It starts a turn, or the message is merged into the running one. Send needs no
// worker to start a turn.
//
// If Send returns no error, the message is accepted and will be answered once. After an error it may have been
// accepted: send it again with the same message ID, which Send returns with the error too.
//
// Errors: ErrInvalid, ErrBusy, ErrNoWorker, ErrUnreachable.
func (c *Client) Send(ctx context.Context, in SendInput) (Turn, error) {
	if in.Session == "" {
		in.Session = NewSessionID()
	}
	if in.Message.ID == "" {
		in.Message.ID = "m-" + strings.ToLower(rand.Text()[:16])
	}
	t := Turn{Session: in.Session, MessageID: in.Message.ID}
	if c.temporal == nil {
		return t, ErrUnreachable
	}
	var err error
	if in.Message.Text, in.Message.Blob, err = c.pack(ctx, in.Message.Text, in.Message.Blob); err != nil {
		return t, err
	}
	run, err := c.begin(ctx, in)
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		t.ID = run.GetRunID()
		return t, nil
	case !errors.As(err, &running):
		return t, fmt.Errorf("starting the turn: %w", startError(err))
	case in.Alone:
		return t, &kindError{turn.Errorf(turn.CodeSessionBusy, err, "a turn of session "+in.Session+" is running"), ErrBusy}
	}
	var res workflows.SendResult
	err = c.persist(ctx, func(ctx context.Context) error { return c.join(ctx, in, &res) })
	t.ID, t.Merged = res.Turn, res.Merged
	return t, err
}

// startError explains why a workflow could not be started.
func startError(err error) error {
	var attribute *serviceerror.InvalidArgument
	if errors.As(err, &attribute) {
		return fmt.Errorf("%w (were the search attributes added? a worker adds them when it starts)", err)
	}
	return typed(err)
}

// pack stores a long text in the journal and returns its hash instead.
func (c *Client) pack(ctx context.Context, text, blob string) (string, string, error) {
	if len(text) > journal.MaxMessageBytes {
		return "", "", fmt.Errorf("%w: the message is %d bytes; the maximum is %d", ErrInvalid, len(text), journal.MaxMessageBytes)
	}
	if blob != "" || c.journal == nil {
		return text, blob, nil
	}
	if encoded, err := json.Marshal(text); err == nil && len(encoded) <= inlineText {
		return text, blob, nil
	}
	hash, err := c.journal.PutBlob(ctx, "text/plain", []byte(text))
	if err != nil {
		return "", "", fmt.Errorf("writing the message to the journal: %w", err)
	}
	return "", hash, nil
}

// begin starts a turn with its message. It costs two events less than an update, and needs no worker to be accepted.
func (c *Client) begin(ctx context.Context, in SendInput) (client.WorkflowRun, error) {
	o := c.start(in.Session, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
	// Otherwise the SDK returns the running turn instead of an error, and the message is lost.
	o.WorkflowExecutionErrorWhenAlreadyStarted = true
	input, m := c.input(in), in.Message
	m.Queue = false
	input.Message = &m
	return c.temporal.ExecuteWorkflow(ctx, o, workflows.TurnWorkflow, input)
}

// join sends the message to the running turn, or to a new one if that has just ended.
func (c *Client) join(ctx context.Context, in SendInput, res *workflows.SendResult) error {
	o := c.start(in.Session, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING)
	h, err := c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(o, workflows.TurnWorkflow, c.input(in)),
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateID: in.Message.ID, WorkflowID: o.ID, UpdateName: workflows.SendUpdate,
			Args: []any{in.Message}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
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

func (c *Client) input(in SendInput) workflows.Input {
	return workflows.Input{
		Version: workflows.WireVersion, Session: in.Session, Tenant: c.options.Tenant, Agent: in.Agent, Limits: in.Limits,
	}
}

func (c *Client) start(session string, conflict enumspb.WorkflowIdConflictPolicy) client.StartWorkflowOptions {
	short := turn.Truncate(session, 80)
	return client.StartWorkflowOptions{
		ID: c.WorkflowID(session), TaskQueue: c.options.TaskQueue, WorkflowIDConflictPolicy: conflict,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         "Everturn turn of session " + short,
		StaticDetails: "One user request carried to its answer. Its transcript is in the journal: `starter show " +
			short + "`.",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.AttrSession.ValueSet(session), workflows.AttrAgent.ValueSet(c.options.Agent),
			workflows.AttrState.ValueSet(string(turn.StateRunning))),
	}
}
