package turn

import (
	"encoding/json"
	"fmt"
	"time"

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
	// CallID and Outcome are set on tool messages. They name the call that produced the result, and how it ended. Outcome
	// is also set on an assistant message that is only the beginning of an answer: cancelled if the turn was stopped in
	// the middle of the inference, error if the turn ended there for another reason.
	CallID  string  `json:"call_id,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Media are the images and audio of a tool's result, for models that accept them.
	Media []Media `json:"media,omitempty"`
	// TurnID and Step name the turn and the step that produced the message. A user message has step 0.
	TurnID string `json:"turn_id,omitempty"`
	Step   int    `json:"step,omitempty"`
	// Items are those of an assistant message's Completion. They are set only while a prompt is built, and are no part of
	// the transcript: only the model that wrote them can read them.
	Items *ProviderItems `json:"-"`
}

// ProviderItems are the parts of an assistant message in the order in which the provider sent them, for a provider that
// needs its own reasoning back. They are sent back to the same model of the same provider only.
type ProviderItems struct {
	Provider string         `json:"provider"`
	API      API            `json:"api"`
	Model    string         `json:"model"` // as requested
	Items    []ProviderItem `json:"items"`
}

// ProviderItem is one part of an assistant message.
type ProviderItem struct {
	// Part is set for a part that the message itself holds: its text, or the next one of its calls.
	Part ItemPart `json:"part,omitempty"`
	// Raw is the item as the provider sent it. For a text or a call, it holds only what the message lacks, and may be
	// empty.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// ItemPart is a part of an assistant message.
type ItemPart string

// The parts that a message itself holds.
const (
	PartText ItemPart = "text"
	PartCall ItemPart = "call"
)

// ToolCall is one call that a model requested.
type ToolCall struct {
	// ID names the call within its turn: "<step>.<index>", for instance "3.0". It is empty in a Completion.
	ID string `json:"id,omitempty"`
	// WireID is the provider's own ID of the call. The provider gets it back with the result.
	WireID string `json:"wire_id,omitempty"`
	// Tool is the tool's ID in the catalogue ("local/read_file"), or the model's own word if the turn has no such tool. In
	// a Completion, it is the wire name.
	Tool string `json:"tool"`
	// Arguments is the text that the model sent, byte for byte. It need not be valid JSON.
	Arguments string `json:"arguments"`
}

// Outcome is how a tool call ended. The zero value means that the call has not ended.
type Outcome string

// The outcomes of a tool call.
const (
	OutcomeOK        Outcome = "ok"        // it ran exactly once and succeeded
	OutcomeError     Outcome = "error"     // it ran and returned an error, or was never sent
	OutcomeUnknown   Outcome = "unknown"   // it may or may not have taken effect
	OutcomeDenied    Outcome = "denied"    // refused before it ran, by policy, guard or validation
	OutcomeCancelled Outcome = "cancelled" // the turn was cancelled before it ran
)

// Known reports whether o is an outcome of this package.
func (o Outcome) Known() bool {
	switch o {
	case OutcomeOK, OutcomeError, OutcomeUnknown, OutcomeDenied, OutcomeCancelled:
		return true
	}
	return false
}

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
	// Background marks the message of a schedule or a batch, whose answer no user waits for: the tasks of the turn that
	// begins with it are dispatched after those of others, and its inferences leave a share of the fleet limits to others.
	Background bool `json:"background,omitempty"`
	// Model is the model of the turn that begins with the message, as "provider:name" or a name; empty means the agent's.
	// It has no effect if the message is merged into a running turn, whose model is frozen.
	Model string `json:"model,omitempty"`
	// Tools narrow the tools of the turn that begins with the message: see Policy.Only. Temperature is its sampling
	// temperature, from 0 to 2; nil means the agent's. Both have no effect if the message is merged into a running turn.
	Tools       []string `json:"tools,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	// Plan lets the turn that begins with the message work by a plan, and says what users confirm of it. An agent that
	// works by a plan anyway keeps its own confirmation if that asks more. It has no effect if the message is merged.
	Plan plan.Confirm `json:"plan,omitempty"`
	// Queue starts a turn of its own for the message after the running turn has ended. Otherwise the message is merged
	// into the running turn.
	Queue bool `json:"queue,omitempty"`
	// Late means that an earlier turn has acknowledged the message and ended without it. The journal then records the
	// message even if the turn that begins with it cannot begin, because its sender does not see how that turn's run
	// closes.
	Late bool `json:"late,omitempty"`
	// TraceParent is the W3C trace context of the sender, to which the turn's trace links.
	TraceParent string `json:"traceparent,omitempty"`
}

// Head identifies a transcript exactly: the sequence number of its last message and the hash of the chain up to it. The
// zero Head is the empty transcript; the first message has sequence number 1.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// Usage counts tokens as the provider reports them, and what they cost.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`  // CachedTokens and CacheWriteTokens included
	OutputTokens int64 `json:"output_tokens"` // ReasoningTokens included
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	// CacheWriteTokens are the input tokens that the provider wrote to its cache, if it charges for them.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"`
	// Estimated is set if the provider reported no usage, or only part of it because the inference was interrupted. What
	// is missing is then estimated at four bytes per token.
	Estimated bool `json:"estimated,omitempty"`
	// Cost is the price of the tokens. It is incomplete if Unpriced is set: a price was unknown.
	Cost     USD  `json:"cost_usd,omitempty"`
	Unpriced bool `json:"unpriced,omitempty"`
}

// Add returns the sum of u and o. The sum is an estimate if either one is.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + o.InputTokens,
		OutputTokens:     u.OutputTokens + o.OutputTokens,
		CachedTokens:     u.CachedTokens + o.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + o.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + o.ReasoningTokens,
		Estimated:        u.Estimated || o.Estimated,
		Cost:             u.Cost + o.Cost,
		Unpriced:         u.Unpriced || o.Unpriced,
	}
}

// Describe returns the tokens for display: input with those from the cache, output with those of reasoning.
func (u Usage) Describe() string {
	text := fmt.Sprintf("%d in", u.InputTokens)
	if u.CachedTokens > 0 {
		text += fmt.Sprintf(" (%d cached)", u.CachedTokens)
	}
	text += fmt.Sprintf(", %d out", u.OutputTokens)
	if u.ReasoningTokens > 0 {
		text += fmt.Sprintf(" (%d reasoning)", u.ReasoningTokens)
	}
	if u.Estimated {
		text += ", estimated"
	}
	return text
}

// DescribeCost returns the cost for display, or nothing if there are no tokens.
func (u Usage) DescribeCost() string {
	switch {
	case u.Total() == 0:
		return ""
	case !u.Unpriced:
		return u.Cost.String()
	case u.Cost > 0:
		return "at least " + u.Cost.String()
	}
	return "unknown"
}

// Total returns the input tokens plus the output tokens.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// Completion is a model's complete response to one inference, before it is parsed.
type Completion struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// as the provider sent them: without ID, with the tool's wire name
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	FinishReason string     `json:"finish_reason"` // the provider's value: stop, tool_calls, length, content_filter
	// Refused is set if the provider marked text as the model's refusal. The text is in Text.
	Refused bool   `json:"refused,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model,omitempty"` // as the provider names it
	// Items are what the provider wants back with the message; nil if it wants nothing.
	Items *ProviderItems `json:"items,omitempty"`
	// Raw is the provider's response before parsing; for a stream, the JSON array of its events. The provider adapter
	// bounds its size.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Prompt is everything that one inference sends, in provider-neutral form. Rendering is deterministic: equal prompts
// give equal bytes, and a prompt whose Messages extend another's extends its bytes.
type Prompt struct {
	Provider string // the ID of the model's provider; empty means the only one
	API      API    // empty means APIChat
	Model    string
	System   string
	Messages []Message  // the slice of the transcript; tool messages follow the assistant message that requested them
	Tools    []WireTool // native mode only, in catalogue order
	// Note follows the messages and gives the reason for a reprompt. It never enters the transcript.
	Note        string
	Temperature *float64
	MaxTokens   int // of the completion; 0 leaves it to the provider
	// CacheKey groups the prompts that share a prefix, for the provider's cache. It is an opaque hash of the session.
	CacheKey string
	// OutputSchema is the JSON schema of the final text; nil means free text.
	OutputSchema json.RawMessage
	// ActionSchema is the JSON schema of every answer in JSON mode, for models that keep to one.
	ActionSchema json.RawMessage
}

// WireTool is a tool as the model sees it.
type WireTool struct {
	Name        string // ^[a-zA-Z0-9_-]{1,64}$
	Description string
	Schema      json.RawMessage // JSON schema of the arguments object
}

// ToolResult is the tool host's result of one call.
type ToolResult struct {
	Outcome Outcome // ok, error, unknown, or denied if the tool was not asked to run
	// Code says why the call did not reach the tool or its result did not come back, if the outcome is error or denied
	// (tool_drift, for example). It is empty if the tool itself returned the error.
	Code Code
	// Text is the result as the model sees it: valid UTF-8 without NUL, bounded by the host.
	Text string
	// FromServer means that Text, Full or Media contain what the tool's server wrote. Otherwise they contain only the
	// host's own words about the call.
	FromServer bool
	// Full is the whole output if Text is truncated, and nil otherwise.
	Full      []byte
	MediaType string // of Full
	// Media are the images and audio of the result, each with its Data.
	Media []Media
	// Plan is how far the turn's plan has come, if the call has changed it.
	Plan *plan.Progress
	// Elicitations are the server's requests for user input. While there are any, the call has not ended and Outcome is
	// empty. Continuation must be sent back with the responses, to this server process or to another one.
	Elicitations []Elicitation
	Continuation []byte
	// Held means that the server keeps the call open until it has the responses. Only the host that returned the result
	// can then continue the call. It ends the call soon unless the caller waits for the call through the host's Await.
	Held bool
	// Detached means that the outcome is unknown because the call continues in the background; ToolRequest.Late gets
	// its result. Until then the call must not be repeated, even if it is repeatable.
	Detached bool
	// SizeBytes is the size of the whole output before truncation.
	SizeBytes int64
	Duration  time.Duration
}

// ToolRequest is one call as the tool host receives it.
type ToolRequest struct {
	// Caller is the session whose turn has called the agent whose turn makes this call; empty for other turns.
	Caller    string
	Model     string // that asked for the call
	Tool      string // catalogue ID
	Hash      string // of the turn config's descriptor; a different current hash is tool_drift
	Arguments json.RawMessage
	Timeout   time.Duration
	// TotalTimeout bounds a call whose progress renews Timeout. If it is 0 or less than Timeout, progress does not
	// renew Timeout.
	TotalTimeout time.Duration
	// Tenant, Session, Turn, Step, CallID and Attempt identify the caller. Local tools find them in their context.
	// State that the host keeps for one tenant (connections, processes, a server's memory) is never visible to another
	// tenant's calls.
	Tenant     string
	Session    string
	Turn       string
	Step       int
	CallID     string
	Attempt    int
	Repeatable bool
	// Refused counts the attempts of this dispatch that ended in an Error with Refused set. Dispatched is when the
	// first attempt was scheduled; the zero time means unknown.
	Refused    int
	Dispatched time.Time
	// Waits means that the caller retries a call that was not sent, so the host returns instead of waiting for the
	// server.
	Waits bool
	// Responses and Continuation resume a call that returned elicitations.
	Responses    []ElicitationResponse
	Continuation []byte
	// Resume means that the turn has called this server before and depends on the state that the server keeps. If that
	// state is lost, the call ends with tool_state_lost. Resume applies to tools with session affinity only. OwningCall
	// is the call with which the server's state for the turn began. If a later call began the server's state, the turn's
	// state is lost. OwningCall is empty if unknown.
	Resume     bool
	OwningCall string
	// Progress, if set, receives the progress of the call. It must not block.
	Progress func(ToolProgress)
	// MaySuspend means that the caller can continue the call in this process: see ToolResult.Held. Otherwise a server
	// that sends an elicitation in the middle of the call gets an error.
	MaySuspend bool
	// Kept is closed when the caller has stored the result that Call returned. Until then, a large result counts
	// against the host's memory limit for results. If Kept is nil, a result counts until Call returns.
	Kept <-chan struct{}
	// Late, if set, receives the result of a call that finished after its outcome was recorded as unknown. The host
	// calls it at most once, from another goroutine.
	Late func(ToolResult)
}

// ToolProgress is the progress of a call as its server reports it.
type ToolProgress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"` // 0: unknown
	Message string  `json:"message,omitempty"`
	// Session is set for the call of an agent's tool: the session of the subagent, or of one below it, whose pending
	// requests have changed.
	Session string `json:"session,omitempty"`
}

// Sink receives a completion in pieces as they arrive. It must not block for long.
type Sink interface {
	Text(delta string)
	Reasoning(delta string)
}
