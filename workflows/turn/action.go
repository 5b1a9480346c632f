package turn

import "fmt"

// Mode is the way in which a model expresses its actions.
type Mode string

// The action modes.
const (
	ModeNative Mode = "native" // the provider's own tool calls, several per completion
	ModeJSON   Mode = "json"   // exactly one JSON object per completion
)

// AskUserTool is the wire name of the built-in tool with which a model in native mode asks its user a question.
const AskUserTool = "ask_user"

// Action is what the model requests in a completion: Final, CallTools or AskUser. The set is closed.
type Action interface{ action() }

// Final ends the turn with an answer.
type Final struct{ Text string }

// CallTools requests one or more calls, which run in parallel and get their results in this order.
type CallTools struct{ Calls []ToolCall }

// AskUser asks the user a question.
type AskUser struct{ Question string }

func (Final) action()     {}
func (CallTools) action() {}
func (AskUser) action()   {}

// InvalidAction is a completion without a valid action: it is malformed, names an unknown tool, or has arguments that
// do not fit the tool's schema. It keeps everything that a user needs to understand it.
type InvalidAction struct {
	Step int `json:"step"`
	// Kind is empty in the histories of turns that began before kinds were recorded.
	Kind      InvalidKind `json:"kind,omitempty"`
	Name      string      `json:"name,omitempty"`      // the tool, if the completion names one
	Arguments string      `json:"arguments,omitempty"` // preview
	Reason    string      `json:"reason"`              // also shown to the model
	// Code is the code of the call's ToolResult if the call names a tool that exists but that the turn does not have.
	// It is CodeInvalidOutput for an answer that does not match the output schema, and empty otherwise.
	Code Code   `json:"code,omitempty"`
	Raw  string `json:"raw,omitempty"` // preview of the completion
}

// InvalidKind says, for programs, what is wrong with an InvalidAction.
type InvalidKind string

// The kinds of invalid actions.
const (
	InvalidEmpty            InvalidKind = "empty"              // neither text nor a call
	InvalidJSON             InvalidKind = "invalid_json"       // not exactly one JSON object within the bounds
	InvalidMissingField     InvalidKind = "missing_field"      // of the JSON object
	InvalidField            InvalidKind = "invalid_field"      // is not a string, or is empty
	InvalidUnknownField     InvalidKind = "unknown_field"      // of the JSON object
	InvalidUnknownType      InvalidKind = "unknown_type"       // of action
	InvalidUnknownTool      InvalidKind = "unknown_tool"       // no tool has this name
	InvalidUnavailableTool  InvalidKind = "unavailable_tool"   // a tool that exists and that the turn does not have
	InvalidArguments        InvalidKind = "invalid_arguments"  // not JSON, or against the tool's schema
	InvalidLargeArguments   InvalidKind = "large_arguments"    // over config.Tuning.ArgumentBytes
	InvalidTooManyCalls     InvalidKind = "too_many_calls"     // in one completion
	InvalidQuestionNotAlone InvalidKind = "question_not_alone" // beside other calls
	InvalidOutput           InvalidKind = "invalid_output"     // an answer against the output schema
	InvalidTruncated        InvalidKind = "truncated"          // cut at the limit of output tokens
)

func (e *InvalidAction) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("step %d: invalid call of %q: %s", e.Step, e.Name, e.Reason)
	}
	return fmt.Sprintf("step %d: invalid answer: %s", e.Step, e.Reason)
}

// Proposal is the part of a completion that the inference returns to the workflow: the action, with long texts and
// arguments cut to previews. The journal has the complete completion.
type Proposal struct {
	Kind ProposalKind `json:"kind"`
	// final, stopped: the answer; otherwise a preview of the text beside the calls
	Text      string `json:"text,omitempty"`
	Truncated bool   `json:"truncated,omitempty"` // Text is the beginning of a longer answer
	Question  string `json:"question,omitempty"`
	// Calls are those of tool_calls, and of an invalid or stopped completion that has calls. Their arguments are
	// previews of at most ArgumentsPreview bytes, for display.
	Calls []ToolCall `json:"calls,omitempty"`
	// Permits say of each of tool_calls, by its ID, whether it may run. A call without one is denied.
	Permits map[string]Permit `json:"permits,omitempty"`
	// Invalid is set for ProposeInvalid, and for ProposeStopped if the completion ended within an action and may be
	// requested again.
	Invalid *InvalidAction `json:"invalid,omitempty"`
	Stop    StopCause      `json:"stop,omitempty"` // stopped only
}

// ProposalKind is the kind of a Proposal.
type ProposalKind string

// The kinds of proposals.
const (
	ProposeFinal   ProposalKind = "final"
	ProposeCalls   ProposalKind = "tool_calls"
	ProposeAsk     ProposalKind = "ask_user"
	ProposeInvalid ProposalKind = "invalid"
	ProposeStopped ProposalKind = "stopped" // the completion ended early, or is a refusal
)

// The bounds on data in the workflow's history.
const (
	ArgumentsPreview = 512       // bytes of a call's arguments
	ResultPreview    = 256       // bytes of a call's result
	AnswerInline     = 128 << 10 // bytes of a final answer; a longer one is read from the journal
	AnswerKept       = 4096      // bytes of an answer in the row of its turn; the transcript has all of it
	WaitArguments    = 64 << 10  // bytes of arguments that a user sees before deciding
	MaxBeside        = 16        // calls in Request.Beside
	BesideArguments  = 200       // bytes of the arguments of one of them
)
