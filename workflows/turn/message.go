package turn

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/plan"
)

// Role is the author of a transcript's message.
type Role string

// The roles of a transcript. The system prompt belongs to the prompt plan, not to the transcript.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a session's transcript.
type Message struct {
	// ID is the client's name for a user message. It is unique in its session and never reused. Other roles have none.
	ID   string `json:"id,omitempty"`
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// ToolCalls are the calls that an assistant message requests, in request order.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// CallID and Outcome of a tool message are the call that produced the result, and how the call ended. Outcome is
	// also set on an assistant message that is only the beginning of an answer: cancelled if the turn was stopped
	// during the inference, error if the turn ended there for another reason.
	CallID  string  `json:"call_id,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Media are the images and audio of a tool's result, for models that accept them.
	Media []Media `json:"media,omitempty"`
	// TurnID and Step name the turn and the step that produced the message. A user's message has step 0. A notice of a
	// call's late result also has the role user, and has the step whose prompt contains it first.
	TurnID string `json:"turn_id,omitempty"`
	Step   int    `json:"step,omitempty"`
	// Items are the Items of the Completion that became this assistant message. They are set only while a prompt is
	// built. They are not part of the transcript, because only the model that wrote them can read them.
	Items *ProviderItems `json:"-"`
}

// ProviderItems are the parts of an assistant message in the provider's own order and form, for a provider that
// requires its reasoning back in later prompts. They are sent only to the same model of the same provider.
type ProviderItems struct {
	Provider string         `json:"provider"`
	API      API            `json:"api"`
	Model    string         `json:"model"` // as requested
	Items    []ProviderItem `json:"items"`
}

// ProviderItem is one part of an assistant message.
type ProviderItem struct {
	// Part is set if the message itself holds the content of the item: its text, or the next of its calls.
	Part ItemPart `json:"part,omitempty"`
	// Raw is the item as the provider sent it. If Part is set, Raw holds only the fields that the message lacks, and
	// may be empty.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// ItemPart is a part of an assistant message.
type ItemPart string

// The parts that a message itself holds.
const (
	PartText ItemPart = "text"
	PartCall ItemPart = "call"
)

// Media is an image, audio or a PDF, stored as a separate blob.
type Media struct {
	Hash  string `json:"hash"` // of the blob
	Type  string `json:"type"` // image/png
	Bytes int64  `json:"bytes"`
	// Data is set only while a prompt is rendered for a model that accepts media, and while the journal stores a
	// result.
	Data []byte `json:"-"`
}

// UserMessage is a user's message to a session. The client stores a text over Temporal's payload limit in the journal,
// and Blob names it. The ID is unique in its session and never reused there: a message that is sent twice is
// answered once.
type UserMessage struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
	// Media are the images and PDFs of the message, whose blobs the client stores in the journal.
	Media []Media `json:"media,omitempty"`
	// Background marks the message of a schedule or a batch, for whose answer no user waits. The tasks of its turn are
	// scheduled after those of other turns, and its inferences leave a share of the fleet limits to other turns.
	Background bool `json:"background,omitempty"`
	// Model is the model of the turn that begins with the message, as "provider:name" or a name; empty means the agent's.
	// It has no effect if the message is merged into a running turn, whose model is frozen.
	Model string `json:"model,omitempty"`
	// Tools narrow the tools of the turn that begins with the message: see Policy.Only. ModelSettings are those of its
	// inferences; the agent's apply to what they leave out. Both have no effect if the message is merged into a running
	// turn.
	Tools []string `json:"tools,omitempty"`
	ModelSettings
	// ClientTools are tools of the turn that begins with the message, but not of its subagents. They take the place of
	// configured client tools with the same names, and Tools does not narrow them. They have no effect if the message is
	// merged into a running turn.
	ClientTools []ClientTool `json:"client_tools,omitempty"`
	// Plan lets the turn that begins with the message work by a plan, and says what users must confirm. The agent's own
	// setting applies if it is stricter. Plan has no effect if the message is merged into a running turn.
	Plan plan.Confirm `json:"plan,omitempty"`
	// Agent, Limits, OutputSchema and Context are those of the turn that begins with the message, and take the place of
	// the ones in the turn's input. If Agent is empty, the input's applies, or that of the turn that left the message.
	// They have no effect if the message is merged into a running turn. The Go client sets them.
	Agent        string          `json:"agent,omitempty"`
	Limits       *LimitsRequest  `json:"limits,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Context      json.RawMessage `json:"context,omitempty"`
	// Queue starts a turn of its own for the message after the running turn has ended. Otherwise the message is merged
	// into the running turn.
	Queue bool `json:"queue,omitempty"`
	// Late means that an earlier turn accepted the message and ended without using it. Its sender already has the
	// acknowledgement and does not watch the turn that begins with it. So the journal records the message even if that
	// turn cannot begin.
	Late bool `json:"late,omitempty"`
	// TraceParent is the W3C trace context of the sender, to which the turn's trace links.
	TraceParent string `json:"traceparent,omitempty"`
}

// OwnTurnVersion is the behavior version since which a message that chooses how its turn works is queued if it has come
// to begin a turn and messages that an earlier turn left come first.
const OwnTurnVersion = 3

// Chooses reports whether the message has a choice, other than an agent, for the turn that begins with it.
func (m UserMessage) Chooses() bool {
	return m.Model != "" || len(m.Tools) > 0 || len(m.ClientTools) > 0 || !m.ModelSettings.Empty() || m.Plan != "" ||
		m.Limits != nil ||
		len(m.OutputSchema) > 0 || len(m.Context) > 0
}

// Head identifies a transcript exactly: the sequence number of its last message and the hash of the chain up to it. The
// zero Head is the empty transcript; the first message has sequence number 1.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash,omitempty"`
}
