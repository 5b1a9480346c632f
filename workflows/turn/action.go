package turn

import "fmt"

// Mode is how a model says what it wants to do.
type Mode string

// The action modes.
const (
	ModeNative Mode = "native" // the provider's own tool calls, several per answer
	ModeJSON   Mode = "json"   // exactly one JSON object per answer
)

// AskUserTool is the wire name of the built-in tool by which a model in native mode asks its user.
const AskUserTool = "ask_user"

// Action is what a model wants done: Final, CallTools or AskUser. The set is closed.
type Action interface{ action() }

// Final ends the turn with an answer.
type Final struct{ Text string }

// CallTools asks for one or more calls, to be run in parallel and answered in this order.
type CallTools struct{ Calls []ToolCall }

// AskUser asks the user a question.
type AskUser struct{ Question string }

func (Final) action()     {}
func (CallTools) action() {}
func (AskUser) action()   {}

// InvalidAction is an answer that is no action: malformed, of an unknown tool, or with arguments that the tool's schema
// refuses. Everything a person needs to understand it is kept.
type InvalidAction struct {
	Step      int    `json:"step"`
	Name      string `json:"name,omitempty"`      // the tool, where one was named
	Arguments string `json:"arguments,omitempty"` // preview
	Reason    string `json:"reason"`              // meant for the model too
	// Code is ToolResult's, of a call of a tool that there is and that the turn does not have; else empty.
	Code Code   `json:"code,omitempty"`
	Raw  string `json:"raw,omitempty"` // preview of the answer
}

func (e *InvalidAction) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("step %d: invalid call of %q: %s", e.Step, e.Name, e.Reason)
	}
	return fmt.Sprintf("step %d: invalid answer: %s", e.Step, e.Reason)
}

// Proposal is what an inference hands to the workflow: an action without its bulk. The whole answer is in the journal.
type Proposal struct {
	Kind      ProposalKind   `json:"kind"`
	Text      string         `json:"text,omitempty"` // final, stopped: the answer; otherwise a preview of what was said beside the calls
	Truncated bool           `json:"cut,omitempty"`  // Text is the beginning of a longer answer
	Question  string         `json:"question,omitempty"`
	Calls     []CallProposal `json:"calls,omitempty"` // of tool_calls, and of an invalid or stopped answer that has calls
	// Invalid is set for invalid, and for stopped if the answer ended within an action and may be asked for again.
	Invalid *InvalidAction `json:"invalid,omitempty"`
	Stop    StopCause      `json:"stop,omitempty"` // stopped only
}

// ProposalKind tells Proposals apart.
type ProposalKind string

// The kinds of proposals.
const (
	ProposeFinal   ProposalKind = "final"
	ProposeCalls   ProposalKind = "tool_calls"
	ProposeAsk     ProposalKind = "ask_user"
	ProposeInvalid ProposalKind = "invalid"
	ProposeStopped ProposalKind = "stopped" // the answer ended before it was complete, or is a refusal
)

// CallProposal names a call that the journal holds.
type CallProposal struct {
	ID            string `json:"id"` // "<step>.<index>"
	Tool          string `json:"tool"`
	WireID        string `json:"wire_id,omitempty"`
	Arguments     string `json:"arguments"` // a preview of at most ArgumentsPreview bytes, for people
	ArgumentsHash string `json:"arguments_hash"`
	// Permission is what policy and the session's rules say of this call with these arguments, weighed where the
	// arguments are. Why explains an ask or a deny.
	Permission Permission `json:"permission,omitempty"`
	Why        string     `json:"why,omitempty"`
	// Widest is Wait's, of a call that a person is asked for.
	MaxGrant GrantScope `json:"widest,omitempty"`
	// Code is set where the call cannot be run whatever people say, as tool_drift: Why says so to the model, and nobody is
	// asked.
	Code Code `json:"code,omitempty"`
}

// The bounds on what travels through the workflow's history.
const (
	ArgumentsPreview = 512       // bytes of a call's arguments
	ResultPreview    = 256       // bytes of a call's result
	AnswerInline     = 128 << 10 // bytes of a final answer; a longer one is read from the journal
	WaitArguments    = 64 << 10  // bytes of arguments that a person is shown before deciding
)
