package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// SendInput is a message for a session.
type SendInput struct {
	// Session may be new. Empty means a new session with a random ID.
	Session string
	// Message needs a text. An empty ID is filled in: a caller that may repeat the request after a crash chooses the ID,
	// of at most 200 bytes. If a turn is running, Queue asks for a turn of its own after it. ClientTools without Queue
	// imply Alone, because a running turn has its own.
	Message turn.UserMessage
	Agent   string                   // empty: the worker's
	Limits  *workflows.LimitsRequest // nil: the worker's
	// Attachments are images and PDFs that the model gets with the message. They need a client with a journal.
	Attachments []Attachment
	// Alone refuses to merge the message into a running turn: the error is ErrBusy.
	Alone bool
	// OutputSchema is the JSON schema of the answer, an object; see workflows.Input. It implies Alone, because a running
	// turn has its own. Ask derives it from a type.
	OutputSchema json.RawMessage
	// Context is a value for the tools of the turn and of its subagents, such as the user's ID in the caller's own system:
	// it is sent as JSON, of at most 4 KiB, and a Go tool reads it with engine.RequestContext. The model does not see it.
	// It implies Alone, because a running turn has its own.
	Context any

	context  json.RawMessage // Context as JSON
	summary  string          // the beginning of the text, for the Web UI
	updateID string          // of the update that sends the message to a running turn
}

// MaxAttachmentBytes is the size of the largest attachment.
const MaxAttachmentBytes = journal.MaxMediaBytes

// Attachment is an image or a PDF of a message.
type Attachment struct {
	Type string // image/png, image/jpeg, image/gif, image/webp or application/pdf
	Data []byte // 8 MiB at most
}

// attachable are the types of attachments.
var attachable = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}

// inlineText is the longest text that travels through the workflow, in bytes of JSON. Temporal refuses payloads over
// 2 MiB.
const inlineText = 256 << 10

// Send sends a message to a session. It starts a turn, or the message is merged into the running one. Send needs no
// worker to start a turn.
//
// If ctx has an OpenTelemetry span, the turn's trace links to it.
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
		in.Message.ID = NewMessageID()
	}
	in.Alone = in.Alone || len(in.OutputSchema) > 0 || in.Context != nil ||
		len(in.Message.ClientTools) > 0 && !in.Message.Queue
	in = in.withChoices()
	in.updateID = in.Message.ID
	if in.Message.Late {
		// A turn has accepted the message in an update with the message's ID, and left it. Temporal answers another update
		// with that ID by repeating the result of the first.
		in.updateID = rand.Text()
	}
	t := Turn{Session: in.Session, MessageID: in.Message.ID}
	if c.temporal == nil {
		return t, ErrUnreachable
	}
	var err error
	if in.Context != nil {
		if in.context, err = json.Marshal(in.Context); err != nil {
			return t, temporalconn.WithKind(ErrInvalid, fmt.Errorf("encoding the context: %w", err))
		}
	}
	if err = c.checkRepeated(ctx, in); err != nil {
		return t, err
	}
	in.summary = workflows.Summary(in.Message.Text)
	in.Message.TraceParent = cmp.Or(in.Message.TraceParent, traceParent(ctx))
	if in.Message.Text, in.Message.Blob, err = c.storeLongText(ctx, in.Message.Text, in.Message.Blob); err != nil {
		return t, err
	}
	if err := c.attach(ctx, &in); err != nil {
		return t, err
	}
	if err := c.input(in, &in.Message).Check(); err != nil {
		return t, temporalconn.WithKind(ErrInvalid, err)
	}
	repeated := false
	err = c.askWorker(ctx, in.Session, func(ctx context.Context) error {
		err := c.send(ctx, in, &t, repeated)
		repeated = true
		return err
	})
	return t, err
}

// withChoices returns in with the message's own agent, limits and output schema, if it has any, in place of those of
// in, and without them in the message: older workers read them only in a turn's input.
func (in SendInput) withChoices() SendInput {
	m := &in.Message
	in.Agent, in.Limits = cmp.Or(m.Agent, in.Agent), cmp.Or(m.Limits, in.Limits)
	if len(m.OutputSchema) > 0 {
		in.OutputSchema = m.OutputSchema
	}
	in.context = m.Context
	m.Agent, m.Limits, m.OutputSchema, m.Context = "", nil, nil, nil
	return in
}

// checkRepeated refuses a message if a message with the same ID and another text began a turn. Otherwise the caller
// would get the answer to the other text. If the journal does not tell, or the caller has stored the text as a blob, it
// returns nil.
func (c *Client) checkRepeated(ctx context.Context, in SendInput) error {
	if c.journal == nil || in.Message.Blob != "" {
		return nil
	}
	row, err := c.journal.Delivered(ctx, in.Session, in.Message.ID)
	if err != nil || row.MessageID != in.Message.ID {
		return nil // the session does not have the message, or it was merged into a turn
	}
	first, err := c.journal.Messages(ctx, row.Session, row.MessageSeq, row.MessageSeq)
	if err != nil || len(first) != 1 || first[0].Text == journal.CleanText(in.Message.Text) {
		return nil
	}
	return temporalconn.WithKind(ErrInvalid, turn.NewError(turn.CodeInputInvalid, nil, fmt.Sprintf(
		"the session already has a message with the ID %q and another text; send this text under another ID",
		turn.Truncate(in.Message.ID, 200))))
}

// traceParent returns the trace context of ctx in the form of a W3C traceparent header, or "" if ctx has no span.
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// send makes one attempt of Send: it starts a turn with the message, or sends the message to the running turn. It
// stores the turn in t. repeated means that an earlier attempt may have started the running turn.
func (c *Client) send(ctx context.Context, in SendInput, t *Turn, repeated bool) error {
	run, err := c.startTurn(ctx, in)
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		t.ID = run.GetRunID()
		return nil
	case !errors.As(err, &running):
		return startError(err)
	}
	if in.Alone || repeated {
		// The message may be in the running turn already, because of an earlier attempt or an earlier Send.
		if found, err := c.findAccepted(ctx, t, running.RunId); found || err != nil {
			return err
		}
	}
	if in.Alone {
		busy := turn.NewError(turn.CodeSessionBusy, err, "a turn of session "+in.Session+" is running")
		return temporalconn.WithKind(ErrBusy, busy)
	}
	var res workflows.SendResult
	err = c.updateWithStart(ctx, in, &res)
	t.ID, t.Merged = res.Turn, res.Merged
	return err
}

// findAccepted reports whether a turn already has the message t.MessageID, and sets t to that turn. It looks in the
// journal and, because the journal has a turn only after a worker has begun it, in the input of the session's running
// turn, whose run ID is run.
func (c *Client) findAccepted(ctx context.Context, t *Turn, run string) (bool, error) {
	if c.journal != nil {
		if row, err := c.journal.Delivered(ctx, t.Session, t.MessageID); err == nil {
			t.ID, t.Merged = row.ID, row.MessageID != t.MessageID
			return true, nil
		}
	}
	history := c.temporal.GetWorkflowHistory(ctx, c.WorkflowID(t.Session), run, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	first, err := history.Next()
	if err != nil {
		return false, fmt.Errorf("reading whose message the running turn began with: %w", err)
	}
	var input workflows.Input
	started := first.GetWorkflowExecutionStartedEventAttributes()
	err = c.options.DataConverter.FromPayloads(started.GetInput(), &input)
	if err != nil || input.Message == nil || input.Message.ID != t.MessageID {
		return false, nil // the turn began with another message, or with an input that this client cannot read
	}
	t.ID = run
	return true, nil
}

// startError adds to an error that a turn could not be started, and the remedy if the namespace lacks search
// attributes.
func startError(err error) error {
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && strings.Contains(strings.ToLower(invalid.Message), "search attribute") {
		return fmt.Errorf("starting the turn: %w (a worker adds the search attributes when it starts)", err)
	}
	return fmt.Errorf("starting the turn: %w", err)
}

// storeLongText stores a text of more than inlineText in the journal and returns its hash as the blob, with an empty
// text. It returns text and blob unchanged if the text is shorter, if blob is set already, or if the client has no
// journal. The error for a text of more than journal.MaxMessageBytes is ErrInvalid.
func (c *Client) storeLongText(ctx context.Context, text, blob string) (newText, newBlob string, err error) {
	if len(text) > journal.MaxMessageBytes {
		return "", "", fmt.Errorf("%w: the message is %d bytes; the maximum is %d",
			ErrInvalid, len(text), journal.MaxMessageBytes)
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

// attach stores the attachments in the journal and adds references to them to the message.
func (c *Client) attach(ctx context.Context, in *SendInput) error {
	if len(in.Attachments) > workflows.MaxAttachments {
		return fmt.Errorf("%w: the message has %d attachments; the maximum is %d", ErrInvalid, len(in.Attachments),
			workflows.MaxAttachments)
	}
	for i, a := range in.Attachments {
		switch {
		case c.journal == nil:
			return fmt.Errorf("%w: attachments need a client with a journal", ErrInvalid)
		case !slices.Contains(attachable, a.Type):
			return fmt.Errorf("%w: attachment %d is %q; models take %s", ErrInvalid, i+1, turn.Truncate(a.Type, 80),
				strings.Join(attachable, ", "))
		case len(a.Data) == 0 || len(a.Data) > MaxAttachmentBytes:
			return fmt.Errorf("%w: attachment %d is %d bytes; it must have 1 to %d", ErrInvalid, i+1, len(a.Data),
				MaxAttachmentBytes)
		}
		hash, err := c.journal.PutBlob(ctx, a.Type, a.Data)
		if err != nil {
			return fmt.Errorf("writing an attachment to the journal: %w", err)
		}
		in.Message.Media = append(in.Message.Media, turn.Media{Hash: hash, Type: a.Type, Bytes: int64(len(a.Data))})
	}
	return nil
}

// startTurn starts a turn with the message in its input. Unlike an update, that needs no worker, and it saves two
// events in the history. If a turn is running, the error is a WorkflowExecutionAlreadyStarted.
func (c *Client) startTurn(ctx context.Context, in SendInput) (client.WorkflowRun, error) {
	m := in.Message
	m.Queue = m.Queue || in.Alone // a message that an earlier turn left may come first
	o := c.start(in, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
	// Otherwise the SDK returns the running turn instead of an error, and the message is lost.
	o.WorkflowExecutionErrorWhenAlreadyStarted = true
	return c.temporal.ExecuteWorkflow(ctx, o, workflows.TurnWorkflow, c.input(in, &m))
}

// updateWithStart sends the message to the running turn in an update. If that turn has just ended, the same request
// starts a new turn for the message. If it ends before it takes the update, the error is errClosing.
func (c *Client) updateWithStart(ctx context.Context, in SendInput, res *workflows.SendResult) error {
	m := in.Message // it may begin a turn of its own after the running one
	m.Agent, m.Limits, m.OutputSchema, m.Context = in.Agent, in.Limits, in.OutputSchema, in.context
	o := c.start(in, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING)
	h, err := c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(o, workflows.TurnWorkflow, c.input(in, nil)),
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateID: in.updateID, WorkflowID: o.ID, UpdateName: workflows.SendUpdate,
			Args: []any{m}, WaitForStage: client.WorkflowUpdateStageCompleted,
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

// input returns the input of a turn. m is its message; nil if the message comes in an update.
func (c *Client) input(in SendInput, m *turn.UserMessage) workflows.Input {
	return workflows.Input{
		Version: workflows.WireVersion, Session: in.Session, Tenant: c.options.Tenant, Message: m, Agent: in.Agent,
		Limits: in.Limits, OutputSchema: in.OutputSchema, Context: in.context,
	}
}

// start returns the options for the workflow of a turn. conflict says what happens if the session has a running turn.
func (c *Client) start(in SendInput, conflict enumspb.WorkflowIdConflictPolicy) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: c.WorkflowID(in.Session), TaskQueue: c.options.TaskQueue, WorkflowIDConflictPolicy: conflict,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         in.summary,
		Priority:              workflows.Priority(c.options.Tenant, in.Message.Background),
		StaticDetails: "One user message and the work to answer it, in session " + workflows.Summary(in.Session) +
			". `everturn show` shows the transcript.",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.AttrSession.ValueSet(in.Session), workflows.AttrAgent.ValueSet(cmp.Or(in.Agent, c.options.Agent)),
			workflows.AttrState.ValueSet(string(turn.StateRunning))),
	}
}
