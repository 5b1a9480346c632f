package turn

import (
	"encoding/json"
	"time"
)

// Role says who speaks in a transcript.
type Role string

// The roles of a transcript. The system prompt is part of the prompt plan, not of the transcript.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a session's transcript.
type Message struct {
	// ID is the client's name for a user message, unique in its session for ever. Other roles have none.
	ID   string `json:"id,omitempty"`
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// ToolCalls are the calls that an assistant message asks for, in request order.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// CallID and Outcome are set on tool messages: which call this is the result of, and how it ended.
	CallID  string  `json:"call_id,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Media are images and audio of a tool's result, for models that can take them.
	Media []Media `json:"media,omitempty"`
	// TurnID and Step say where the message was made. A user message has step 0.
	TurnID string `json:"turn_id,omitempty"`
	Step   int    `json:"step,omitempty"`
}

// ToolCall is one call that a model asked for.
type ToolCall struct {
	// ID names the call within its turn: "<step>.<index>", for instance "3.0".
	ID string `json:"id"`
	// WireID is the provider's own name of the call, given back to it with the result.
	WireID string `json:"wire_id,omitempty"`
	// Tool is the tool's ID in the catalogue ("local/read_file"), or what the model said where no such tool is pinned.
	Tool string `json:"tool"`
	// Arguments is what the model sent, byte for byte. It need not be valid JSON.
	Arguments string `json:"arguments"`
}

// Outcome is how a tool call ended. The zero value means that it has not.
type Outcome string

// The outcomes of a tool call.
const (
	OutcomeOK        Outcome = "ok"        // it ran exactly once and succeeded
	OutcomeError     Outcome = "error"     // it ran and answered with an error, or was never sent
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

// Media is something that is not text, kept as a blob of its own.
type Media struct {
	Hash  string `json:"hash"` // of the blob
	Type  string `json:"type"` // image/png
	Bytes int64  `json:"bytes"`
	// Data is there only while a prompt is rendered for a model that takes it, and where a result is handed to the journal.
	Data []byte `json:"-"`
}

// Head names a transcript exactly: the sequence number of its last message and the hash of the chain up to it.
// The zero Head is the empty transcript; the first message has sequence number 1.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// Usage counts tokens as the provider reports them.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	// Estimated says that the provider reported nothing and the counts are a guess of four bytes a token.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of both; a sum with an estimate in it is an estimate.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens:  u.InputTokens + o.InputTokens,
		OutputTokens: u.OutputTokens + o.OutputTokens,
		CachedTokens: u.CachedTokens + o.CachedTokens,
		Estimated:    u.Estimated || o.Estimated,
	}
}

// Total is input plus output, in tokens.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// Completion is a complete answer of a model.
type Completion struct {
	Text         string     `json:"text,omitempty"`
	Reasoning    string     `json:"reasoning,omitempty"`
	ToolCalls    []WireCall `json:"tool_calls,omitempty"`
	FinishReason string     `json:"finish_reason"` // the provider's word: stop, tool_calls, length, content_filter
	// Refused: the provider marked text as the model's refusal. It is in Text.
	Refused bool   `json:"refused,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model,omitempty"` // as the provider names it
	// Raw is the provider's answer before parsing: for a stream, the JSON array of its events. Bounded by the provider adapter.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// WireCall is a native tool call as the provider sent it: its own ID, the wire name, the raw arguments.
type WireCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Prompt is all that one inference sends, in provider-neutral form. Rendering it is deterministic: equal prompts
// give equal bytes, and a prompt whose Messages extend another's extends its bytes.
type Prompt struct {
	Model    string
	System   string
	Messages []Message  // the slice of the transcript, tool messages after the assistant message that asked for them
	Tools    []WireTool // native mode only, in catalogue order
	// Note is said to the model after the messages: a reprompt's reason. It never enters the transcript.
	Note        string
	Temperature *float64
	MaxTokens   int // of the answer; 0 leaves it to the provider
}

// WireTool is a tool as the model sees it.
type WireTool struct {
	Name        string // ^[a-zA-Z0-9_-]{1,64}$
	Description string
	Schema      json.RawMessage // JSON schema of the arguments object
}

// ToolResult is what a tool host hands back for one call.
type ToolResult struct {
	Outcome Outcome // ok, error, unknown, or denied where nobody was asked to do it
	// Code is why it did not come to the tool or back from it, where the outcome is error or denied: tool_drift, for one. Empty
	// where the error is the tool's own.
	Code Code
	// Text is what the model is shown: valid UTF-8 without NUL, bounded by the host.
	Text string
	// Full is the whole output where Text is a cut of it; nil where Text is everything.
	Full      []byte
	MediaType string // of Full
	// Media are the images and audio of the result, each with its Data.
	Media []Media
	// Elicitations are what the server wants to know from a person before it goes on: the call is not over, and Outcome is empty.
	// Continuation is to be handed back with the replies, to this server or to another process of it.
	Elicitations []Elicitation
	Continuation []byte
	// Detached: the outcome is unknown because the call goes on by itself, and ToolRequest.Late is told its end. It is not to
	// be called again meanwhile, also where it may be repeated.
	Detached bool
	// SizeBytes is the size of the whole output before any cut.
	SizeBytes int64
	Duration  time.Duration
}

// ToolRequest is one call as a tool host gets it.
type ToolRequest struct {
	Tool      string // catalogue ID
	Hash      string // of the pinned descriptor; another one now is tool_drift
	Arguments json.RawMessage
	Timeout   time.Duration
	// TotalTimeout bounds a call whose progress renews Timeout; 0, or less than Timeout: progress renews nothing.
	TotalTimeout time.Duration
	// Tenant, Session, Turn, Step, CallID and Attempt say who asks. Local tools find them in their context. What the host
	// keeps for one tenant (connections, processes, what a server remembers) no other one's calls reach.
	Tenant     string
	Session    string
	Turn       string
	Step       int
	CallID     string
	Attempt    int
	Repeatable bool
	// Refused counts the attempts of this dispatch that ended in an Error with Refused set, and Dispatched is when the first
	// attempt was scheduled; the zero time is not known.
	Refused    int
	Dispatched time.Time
	// Waits: the caller retries a call that was not sent, so the host returns instead of waiting for the server.
	Waits bool
	// Replies and Continuation go on with a call that asked for something.
	Responses    []ElicitationResponse
	Continuation []byte
	// Resume: the turn has called this server before, and what it remembers has to be here still. Else the call ends in
	// tool_state_lost. It is for tools that are Stateful. Founder is the call that found the server without any state of the
	// turn; the state that a later one has founded is another. Empty: it is not known.
	Resume     bool
	OwningCall string
	// Progress, where it is set, is told how far the call has come. It must not block.
	Progress func(ToolProgress)
	// Hold, where it is set, asks a person what the server of an older protocol wants to know in the middle of the call. It
	// returns soon after done is closed: with what was said in the last moment, or an error. Without it, such questions are cancelled.
	Hold func(q Elicitation, done <-chan struct{}) (ElicitationResponse, error)
	// Kept is closed when the result that Call returned is kept. Until then, a large one counts in the memory that the host
	// has for results. It may be nil: a result counts until Call returns.
	Kept <-chan struct{}
	// Late, where it is set, is given the result of a call that was given up as unknown and came to an end after all. It is
	// called once at most, from another goroutine.
	Late func(ToolResult)
}

// ToolProgress is how far a call has come, by its server's word.
type ToolProgress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"` // 0: unknown
	Message string  `json:"message,omitempty"`
}

// Elicitation is what a server wants to know from a person before it goes on with a call.
type Elicitation struct {
	Key     string `json:"key"` // the server's own name of the question, unique in its call's round
	Message string `json:"message"`
	// Schema is of the object that answers: flat, with strings, numbers, booleans and choices. Empty where URL is set.
	Schema json.RawMessage `json:"schema,omitempty"`
	// URL is where the person is to go instead; the answer says only that it was done.
	URL string `json:"url,omitempty"`
}

// ElicitationResponse answers an Elicitation.
type ElicitationResponse struct {
	Key     string            `json:"key"`
	Action  ElicitationAction `json:"action"`
	Content json.RawMessage   `json:"content,omitempty"` // an object of Elicitation.Schema, where it was accepted
}

// ElicitationAction is what a person did with a server's question.
type ElicitationAction string

// The actions, as the Model Context Protocol has them.
const (
	ElicitationAccept  ElicitationAction = "accept"
	ElicitationDecline ElicitationAction = "decline" // no
	ElicitationCancel  ElicitationAction = "cancel"  // nobody answered
)

// Sink takes the pieces of an answer as they come. It must not block for long.
type Sink interface {
	Text(delta string)
	Reasoning(delta string)
}
