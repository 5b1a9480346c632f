package turn

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/workflows/plan"
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
	// Arguments is the text that the model sent, byte for byte. It need not be valid JSON. If ArgumentsHash is set,
	// Arguments is only a preview, or empty.
	Arguments string `json:"arguments"`
	// ArgumentsHash is the hash of the whole arguments. It is set where they stand elsewhere: in a Proposal, because the
	// journal has them, and in a row of the journal, because a blob has them. A Message and a Completion have no hash.
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	// Background means that the call starts a subagent for which the turn does not wait. It is set in a Proposal only.
	Background bool `json:"background,omitempty"`
}

// Outcome is how a tool call ended. The zero value means that the call has not ended.
type Outcome string

// The outcomes of a tool call.
const (
	OutcomeOK        Outcome = "ok"        // it ran exactly once and succeeded
	OutcomeError     Outcome = "error"     // it ran and returned an error, or was never sent
	OutcomeUnknown   Outcome = "unknown"   // it may or may not have taken effect
	OutcomeDenied    Outcome = "denied"    // refused before it ran, by policy, limit or validation
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
	// Taints means that this server is untrusted: a result FromServer taints the session, even a late one. The caller of
	// the host sets it.
	Taints bool
	// Full is the whole output if Text is truncated; otherwise it is nil.
	Full      []byte
	MediaType string // of Full
	// Media are the images and audio of the result, each with its Data.
	Media []Media
	// Plan is the progress of the turn's plan after the call, if the call has changed it; otherwise nil.
	Plan *plan.Progress
	// Workspace is what the call did with the tree of its session.
	Workspace []WorkspaceEvent
	// Elicitations are the server's requests for user input. While there are any, the call has not ended and Outcome is
	// empty. Continuation must be sent back with the responses, to this server process or to another one.
	Elicitations []Elicitation
	Continuation []byte
	// Detached means that the outcome is unknown because the call continues in the background; ToolRequest.Late gets
	// its result. Until then the call must not be repeated, even if it is repeatable.
	Detached bool
	// SizeBytes is the size of the whole output before truncation.
	SizeBytes int64
	Duration  time.Duration
}

// ToolRequest is one call as the tool host receives it.
type ToolRequest struct {
	// Caller is set if a subagent's turn makes the call: the session of the turn that called the subagent.
	Caller string
	Model  string // the model that requested the call
	// Context is the JSON value that the client has sent with the message, for the tools; nil if there is none. The turn
	// of a subagent has that of its caller.
	Context   json.RawMessage
	Tool      string // catalogue ID
	Hash      string // the tool's hash in the turn config; if the current one differs, the call ends with tool_drift
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
	// Refused counts how often the activity of this attempt ended in an Error with Refused set. Scheduled is when the
	// activity was scheduled first; the zero time means unknown.
	Refused   int
	Scheduled time.Time
	// Waits means that the caller retries a call that was not sent. The host then waits only briefly for an unavailable
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
	// Workspace, if set, receives what the call does with the tree of its session. It may be called from any goroutine.
	Workspace func(WorkspaceEvent)
	// Progress, if set, receives the progress of the call. It must not block.
	Progress func(ToolProgress)
	// Elicit, if set, asks the user for the response to an elicitation that the server sends in the middle of the call,
	// and waits for it. If end is closed first, or the user cannot be asked, the response is a cancel. If Elicit is nil,
	// the server gets an error.
	Elicit func(q Elicitation, end <-chan struct{}) ElicitationResponse
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
	// Output is a part of what a command has written, and Offset is the number of bytes before it. If a command writes
	// more than is kept of it while it runs, parts are left out.
	Output string `json:"output,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Session is set for the call of an agent's tool: the session of the subagent, or of one below it, whose pending
	// requests have changed.
	Session string `json:"session,omitempty"`
}

// MaxOutput bounds ToolProgress.Output, in bytes.
const MaxOutput = 4 << 10

// After returns p with the output of an earlier progress that was not reported, as far as there is room.
func (p ToolProgress) After(earlier ToolProgress) ToolProgress {
	if earlier.Output == "" || p.Output == "" || earlier.Offset+int64(len(earlier.Output)) != p.Offset {
		return p
	}
	p.Output, p.Offset = earlier.Output+p.Output, earlier.Offset
	return p.withinRoom()
}

// withinRoom returns p with the end of its output, if that is too long.
func (p ToolProgress) withinRoom() ToolProgress {
	if excess := len(p.Output) - MaxOutput; excess > 0 {
		for excess < len(p.Output) && !utf8.RuneStart(p.Output[excess]) {
			excess++
		}
		p.Output, p.Offset = p.Output[excess:], p.Offset+int64(excess)
	}
	return p
}

// NewOutput returns the progress of a command that has written a text after offset bytes: its last MaxOutput bytes.
func NewOutput(text string, offset int64) ToolProgress {
	return ToolProgress{Done: float64(offset + int64(len(text))), Output: text, Offset: offset}.withinRoom()
}

// Sink receives a completion in pieces as they arrive. It must not block for long.
type Sink interface {
	Text(delta string)
	Reasoning(delta string)
}
