package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// The names that clients use.
const (
	TurnWorkflow = "Turn"     // the workflow type
	TaskQueue    = "everturn" // the default task queue
	SendUpdate   = "Send"     // update: a Message; the update's ID is the message's
	DecideUpdate = "Decide"   // update: a DecideInput
	ElicitUpdate = "Elicit"   // update: an ElicitInput, from the activity of a call
	StateQuery   = "State"    // query: a Snapshot
)

// WireVersion is the version of the messages between clients and the workflow. A worker rejects messages of a newer
// version.
const WireVersion = 1

// Input starts a turn. Only the message's text is required:
//
//	{"session": "…", "message": {"id": "…", "text": "…"}, "agent": "…", "limits": {"max_steps": 20}}
//
// The session defaults to the one that the workflow ID names, and the two must agree. If the input names a tenant, see
// WorkflowID.
type Input struct {
	Version int    `json:"v,omitempty"`
	Session string `json:"session,omitempty"`
	// Tenant is the session's tenant, empty for the default tenant. The workflow ID must be the one that WorkflowID
	// returns.
	Tenant  string         `json:"tenant,omitempty"`
	Message *Message       `json:"message,omitempty"`
	Agent   string         `json:"agent,omitempty"`
	Limits  *LimitsRequest `json:"limits,omitempty"`
	// OutputSchema is the JSON schema of the answer, which must be an object. The answer is then its JSON. An answer that
	// does not match is requested once more; after that the turn fails with invalid_output.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// Context is a JSON value for the tools of the turn and of its subagents, such as the user's ID in the caller's own
	// system; at most 4 KiB. The model does not see it.
	Context json.RawMessage `json:"context,omitempty"`
	// Caller is the call that starts this turn, if it is that of a subagent. Clients leave it unset.
	Caller turn.Caller `json:"caller,omitzero"`
	// Asks lets the turn of a subagent ask the user. Without it, a question ends the turn, because only the caller
	// could answer. Clients leave it unset.
	Asks bool `json:"asks,omitempty"`
	// Continued is the progress that a run hands to the next one of its chain in the middle of a turn, and Turn is the
	// turn's ID. Clients leave both unset.
	Continued *turn.Progress `json:"continued,omitempty"`
	Turn      string         `json:"turn,omitempty"`

	refusal *turn.Error // why the input cannot be read, or exceeds a bound
}

// Message is a user's message to a session.
type Message = turn.UserMessage

// LimitsRequest overrides configured limits for one turn.
type LimitsRequest = turn.LimitsRequest

// Result is the result of a turn. It is also the detail of the error of a failed or cancelled turn.
type Result struct {
	Version      int               `json:"v"`
	Session      string            `json:"session"`
	Turn         string            `json:"turn"`
	State        turn.State        `json:"state"`
	FinishReason turn.FinishReason `json:"finish_reason"`
	Answer       string            `json:"answer,omitempty"`
	// Truncated means that Answer is the beginning of a longer one, which the journal holds.
	Truncated bool `json:"truncated,omitempty"`
	// DuplicateOf is set if the message is a duplicate: the turn that had the message first and gave this answer.
	DuplicateOf string     `json:"duplicate_of,omitempty"`
	Code        turn.Code  `json:"code,omitempty"`
	Message     string     `json:"message,omitempty"` // for display, if there is no answer
	Usage       turn.Usage `json:"usage"`
	Steps       int        `json:"steps"`
	ToolCalls   int        `json:"tool_calls"`
	Model       string     `json:"model,omitempty"`
	// Left are the IDs of the messages that the turn accepted and did not use. A delivery sends them to the session again,
	// where they begin its next turn.
	Left []string `json:"left,omitempty"`
	// Busy is the working time of a subagent's turn, which its caller counts. It is 0 for other turns.
	Busy time.Duration `json:"busy,omitempty"`
}

// UnmarshalJSON reads an Input. If the JSON is invalid or has unknown fields, it returns an input that the turn rejects
// with a message, because the SDK would retry the workflow task of an input that cannot be decoded without end. It
// accepts unknown fields if Continued is set: an earlier run on a newer worker may have written them.
func (in *Input) UnmarshalJSON(b []byte) error {
	type plain Input
	var p plain
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&p); err != nil {
		p = plain{}
		if lenient := json.Unmarshal(b, &p); lenient != nil || p.Continued == nil {
			p = plain{refusal: invalid(
				"the input cannot be read: %s; its keys are session, tenant, message {id, text}, agent, limits, "+
					"output_schema and context",
				turn.Truncate(strings.TrimPrefix(err.Error(), "json: "), 200))}
		}
	}
	*in = Input(p)
	return nil
}

// check rejects an invalid input. workflowID is that of the run, with which the input's tenant and session must agree.
// It checks neither the message, which may arrive later, nor what bound checks.
func (in Input) check(workflowID string) *turn.Error {
	if in.refusal != nil {
		return in.refusal
	}
	if err := checkVersion(in.Version); err != nil {
		return err
	}
	if err := in.checkTenant(workflowID); err != nil {
		return err
	}
	session := in.sessionOf(workflowID)
	if in.Session != "" && in.Session != session {
		return invalid("the session %q and the workflow ID %q must agree; leave the session out or start the workflow "+
			"under its ID", turn.Truncate(in.Session, 80), turn.Truncate(workflowID, 80))
	}
	if err := turn.CheckSession(session); err != nil {
		return invalid("%s", err.Error())
	}
	return checkRequested(in.Limits, in.OutputSchema, in.Context)
}

// checkRequested rejects limits, an output schema and a context that no turn can apply.
func checkRequested(limits *LimitsRequest, outputSchema, toolContext json.RawMessage) *turn.Error {
	if _, err := limits.Apply(turn.DefaultLimits()); err != nil {
		return invalid("%s", err.Error())
	}
	if len(outputSchema) > maxOutputSchema {
		return invalid("the output_schema is %d bytes; the maximum is %d", len(outputSchema), maxOutputSchema)
	}
	if len(toolContext) > maxContext {
		return invalid("the context is %d bytes; the maximum is %d", len(toolContext), maxContext)
	}
	return nil
}

// maxContext bounds the context of a message for its tools, in bytes.
const maxContext = 4 << 10

// maxOutputSchema bounds an output schema, in bytes. It is in every prompt of the turn.
const maxOutputSchema = 64 << 10

// Check returns an error with turn.CodeInputInvalid if a turn would reject the input. Clients call it before they start
// a turn, because a turn with an invalid input fails without an answer. The input must have a session and a message.
func (in Input) Check() error {
	// First, because check would report that a reserved session ID and the workflow ID disagree.
	if err := turn.CheckSession(in.Session); err != nil {
		return invalid("%s", err.Error())
	}
	if err := in.check(WorkflowID(in.Tenant, in.Session)); err != nil {
		return err
	}
	if err := checkAgent(in.Agent); err != nil {
		return err
	}
	if err := checkSent(*in.Message); err != nil { // a nil *turn.Error must not become a non-nil error
		return err
	}
	return nil
}

// invalid returns an error with turn.CodeInputInvalid.
func invalid(format string, args ...any) *turn.Error {
	return turn.NewError(turn.CodeInputInvalid, nil, fmt.Sprintf(format, args...))
}

// checkVersion rejects the version of a newer client.
func checkVersion(version int) *turn.Error {
	if version > WireVersion {
		return invalid("the client's messages are of version %d; this worker knows version %d and older: update the worker",
			version, WireVersion)
	}
	return nil
}

// Bounds of a message's fields, in bytes. A trace context of version 00 has 55.
const (
	maxMessageID   = 200
	maxTraceParent = 100
	maxModel       = 200
	maxMediaHash   = 200
	maxMediaType   = 100
)

// MaxAttachments bounds the media of a message.
const MaxAttachments = 8

// checkMessage rejects a message that is empty, or that has a field which is too large or invalid. It does not check
// the size of the text: see checkEncodedSize.
func checkMessage(m Message) *turn.Error {
	switch {
	case strings.TrimSpace(m.Text) == "" && m.Blob == "" && len(m.Media) == 0:
		return invalid("the message is empty; put what you want to ask into message.text")
	case len(m.ID) > maxMessageID:
		return invalid("the message's ID is %d bytes; the maximum is %d", len(m.ID), maxMessageID)
	case len(m.Model) > maxModel:
		return invalid("the message's model is %d bytes; the maximum is %d", len(m.Model), maxModel)
	case len(m.TraceParent) > maxTraceParent:
		return invalid("the message's traceparent is %d bytes; the maximum is %d", len(m.TraceParent), maxTraceParent)
	case len(m.Media) > MaxAttachments:
		return invalid("the message has %d attachments; the maximum is %d", len(m.Media), MaxAttachments)
	}
	for _, media := range m.Media {
		// No hash or media type is that long.
		if len(media.Hash) > maxMediaHash || len(media.Type) > maxMediaType {
			return invalid("an attachment of the message is not described by a hash and a media type")
		}
	}
	if err := checkAgent(m.Agent); err != nil {
		return err
	}
	if err := checkRequested(m.Limits, m.OutputSchema, m.Context); err != nil {
		return err
	}
	return checkChoices(m)
}
