package workflows

import (
	"context"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Activities is the port through which the workflows Turn and Compact perform effects. A method's name is the type of
// its activity.
// Every method is idempotent: a repeated call with the same input finds the first call's result in the journal.
type Activities interface {
	// Begin appends the turn's message to its session and freezes the turn config.
	Begin(context.Context, BeginInput) (BeginResult, error)
	// Infer appends the last step's results, calls the model and appends its completion.
	Infer(context.Context, InferInput) (InferResult, error)
	// RefreshTools checks whether servers that were unavailable to the turn are available again, and adds their tools.
	RefreshTools(context.Context, RefreshInput) (RefreshResult, error)
	// CallTool claims one call, runs it, settles it and returns a receipt.
	CallTool(context.Context, CallInput) (CallResult, error)
	// AwaitCall returns when a call that CallTool has suspended with CallResult.Held can no longer use a response. It
	// must run on the receipt's StickyQueue. An error means that this worker cannot continue the call.
	AwaitCall(context.Context, AwaitCallInput) error
	// BeginSubagent claims a call of an agent's tool, and returns the message with which the agent's turn begins.
	BeginSubagent(context.Context, SubagentInput) (BeginSubagentResult, error)
	// SettleSubagent settles that call with the answer of the agent's turn, which has ended or could not begin.
	SettleSubagent(context.Context, SettleSubagentInput) (CallResult, error)
	// Ask records the requests that the turn waits for, so that clients can see them.
	Ask(context.Context, AskInput) (AskResult, error)
	// Decide records decisions, including expiries.
	Decide(context.Context, DecideInput) (DecideResult, error)
	// Finish settles the turn.
	Finish(context.Context, FinishInput) (FinishResult, error)
	// Compact compacts the conversation of a session whose turn has ended.
	Compact(context.Context, CompactInput) (CompactResult, error)
}

// call runs an activity of the port. Unlike the SDK's own call, it lets the compiler check In and Out. It returns as
// soon as ctx is cancelled. The activity learns of the cancellation with its next heartbeat, and the journal rejects
// its writes from then on.
func call[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error),
	in In) (Out, error) {
	var out Out
	future := workflow.ExecuteActivity(ctx, activityName(act), in)
	if workflow.Await(ctx, future.IsReady) != nil {
		return out, ctx.Err()
	}
	err := future.Get(ctx, &out)
	return out, err
}

// callLocal runs an activity of the port inside the workflow task.
func callLocal[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error),
	in In) (Out, error) {
	var out Out
	err := workflow.ExecuteLocalActivity(ctx, activityName(act), in).Get(ctx, &out)
	return out, err
}

// activityName returns the method's name. Both kinds of activities are called by name, because the SDK accepts a
// function as a local activity as it is and rejects the method of an interface.
func activityName(method any) string {
	name := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// BeginInput is the input of Begin. The activity adds the turn config.
type BeginInput struct {
	turn.BeginInput
	Limits *LimitsRequest `json:"limits,omitempty"`
	// OutputSchema is that of the turn's Input.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
}

// BeginResult is the state from which a turn starts.
type BeginResult struct {
	Config turn.Config `json:"config"`
	Head   turn.Head   `json:"head"` // right after the turn's message
	// Duplicate is set if another turn has already received this message. It is that turn's result, as far as it is
	// known.
	Duplicate *Result `json:"duplicate,omitempty"`
	// Kept means that the message begins no turn, because it is a subagent's answer for which nothing is left or which a
	// user has stopped. The session's next inference gets it.
	Kept bool `json:"kept,omitempty"`
	// Earlier are the messages that the session's previous turn has left and that come before this one: the first of them
	// begins the turn. Later are those that come after it; the turn gets them next.
	Earlier []Message `json:"earlier,omitempty"`
	Later   []Message `json:"later,omitempty"`
}

// RefreshInput names the servers whose tools a turn lacks.
type RefreshInput struct {
	Session      string   `json:"session"`
	Turn         string   `json:"turn"`
	PromptConfig string   `json:"prompt_config"` // blob with the frozen schemas
	Unavailable  []string `json:"unavailable"`   // servers
}

// RefreshResult lists the tools that are available again. If there are none, it is empty.
type RefreshResult struct {
	PromptConfig string      `json:"prompt_config,omitempty"` // the blob that replaces the turn's
	Tools        []turn.Tool `json:"tools,omitempty"`         // in addition to the turn's
	Recovered    []string    `json:"recovered,omitempty"`     // servers whose tools these are
	Unavailable  []string    `json:"unavailable,omitempty"`
}

// InferInput is the input of one inference. It names the transcript by reference.
type InferInput struct {
	Session  string             `json:"session"`
	Turn     string             `json:"turn"`
	Step     int                `json:"step"`
	Expect   turn.Head          `json:"expect"` // before Outcomes are appended
	Outcomes []turn.CallOutcome `json:"outcomes,omitempty"`
	// Messages are those to merge into the turn. Infer appends them after Outcomes and skips a message whose ID the
	// session already has.
	Messages []Message       `json:"messages,omitempty"`
	Prompt   turn.PromptSpec `json:"plan"`
	Budget   time.Duration   `json:"budget"` // working time left, over all attempts
	// Tenant, Provider and Background select the fleet limits that apply.
	Tenant     string `json:"tenant,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Background bool   `json:"background,omitempty"`
	// Subagents is what the turn's subagents have cost, or may still cost. It lowers what is left of the turn's
	// max_cost_usd.
	Subagents turn.USD `json:"subagents,omitempty"`
}

// InferResult is a proposal and what it cost. The journal has the complete completion.
type InferResult struct {
	Proposal turn.Proposal `json:"proposal"`
	Head     turn.Head     `json:"head"` // after the completion
	Usage    turn.Usage    `json:"usage"`
	Failures int           `json:"failures,omitempty"` // attempts whose stream was cut, and that are paid for
	Busy     time.Duration `json:"busy"`
	// Provider and Model are set if a fallback has taken over from the turn's own model.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Undelivered are the IDs of messages that came too late: the inference was settled without them before a reset.
	Undelivered []string `json:"undelivered,omitempty"`
}

// CallInput is the input of one tool call. Tool and the arguments in Call are for display; the activity runs what the
// journal holds.
type CallInput struct {
	Session      string            `json:"session"`
	Tenant       string            `json:"tenant,omitempty"`
	Turn         string            `json:"turn"`
	Step         int               `json:"step"`
	Call         turn.CallProposal `json:"call"`
	Tool         turn.Tool         `json:"tool"`
	PromptConfig string            `json:"prompt_config"` // blob with the frozen schemas
	Attempt      int               `json:"attempt"`       // the attempt, counted from 1
	Timeout      time.Duration     `json:"timeout"`
	// TotalTimeout bounds a call whose progress renews Timeout. If it is 0, progress does not renew Timeout.
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	// ServerWait is how long an unsent call may wait for its server, less the time that earlier attempts used. Budget
	// is the turn's remaining working time, for waiting and running together.
	ServerWait time.Duration `json:"server_wait,omitempty"`
	Budget     time.Duration `json:"budget,omitempty"`
	Model      string        `json:"model,omitempty"` // that asked for the call
	// CheckApproval means that this call needs an approval for these arguments, and that the activity must check it in the
	// journal.
	CheckApproval bool `json:"check_approval,omitempty"`
	// Responses answer the call's elicitations, and ElicitationAttempt is the attempt that returned those elicitations:
	// see CallResult.ElicitationAttempt. If the call has progressed since then, the responses do not apply to its current
	// elicitations.
	Responses          []turn.ElicitationResponse `json:"responses,omitempty"`
	ElicitationAttempt int                        `json:"elicitation_attempt,omitempty"`
	// RepeatIfUnknown means that the workflow will attempt the call once more if its outcome is unknown. See Repeats.
	RepeatIfUnknown bool `json:"repeat_if_unknown,omitempty"`
	// Resume means that the turn has already called this server, which has session affinity, on this worker.
	Resume bool `json:"resume,omitempty"`
	// OwningCall is the call that created the turn's connection to that server. A server that lost its state since that
	// attempt began has another owning call.
	OwningCall string `json:"owning_call,omitempty"`
}

// CallResult is the receipt of a call.
type CallResult struct {
	CallID  string        `json:"call_id"`
	Tool    string        `json:"tool"`
	Outcome turn.Outcome  `json:"outcome"`
	Preview string        `json:"preview,omitempty"` // of the result's text
	Busy    time.Duration `json:"busy"`
	// Elicitations are the server's requests for user input. While there are any, the call has no outcome and waits.
	Elicitations []turn.Elicitation `json:"elicitations,omitempty"`
	// ElicitationAttempt is the attempt that recorded them in the journal: this one, or an earlier one whose end was
	// lost.
	ElicitationAttempt int `json:"elicitation_attempt,omitempty"`
	// Held means that the server keeps the call open until it has the responses: only the worker of StickyQueue can
	// continue the call. See Activities.AwaitCall.
	Held bool `json:"held,omitempty"`
	// StickyQueue is the task queue of the worker that holds the turn's connection to this server.
	StickyQueue string `json:"sticky_queue,omitempty"`
	// Used is what the subagent that was called has used, with those below it; nil for other calls.
	Used *turn.Spending `json:"used,omitempty"`
	// Message is the one that SettleSubagentInput.Deliver asks for.
	Message *Message `json:"message,omitempty"`
}

// SubagentInput is the call of an agent's tool, with what its subagent may use.
type SubagentInput struct {
	CallInput
	Granted turn.Allowance `json:"granted"`
}

// BeginSubagentResult is the message for the agent's session, or the receipt of a call that is settled already.
type BeginSubagentResult struct {
	Message Message `json:"message"`
	// Granted is what the subagent may use, as the first claim of the call has recorded it.
	Granted turn.Allowance `json:"granted"`
	Receipt *CallResult    `json:"receipt,omitempty"`
}

// SettleSubagentInput names the call. Problem says why the agent's turn may have left nothing in the journal.
type SettleSubagentInput struct {
	CallInput
	Problem string `json:"problem,omitempty"`
	// Started settles the call of an agent that works in the background, before its turn has ended.
	Started bool `json:"started,omitempty"`
	// Deliver asks for the message with which the answer of such an agent goes to its caller's session.
	Deliver bool `json:"deliver,omitempty"`
}

// AwaitCallInput names a suspended call.
type AwaitCallInput struct {
	Turn string `json:"turn"`
	Call string `json:"call"`
}

// AskInput and DecideInput are the inputs of Ask and Decide.
type (
	AskInput    = turn.AskInput
	DecideInput = turn.DecideInput
)

// AskResult says that clients can see the requests.
type AskResult struct {
	// Decisions are the ones already recorded, if the turn was reset to a point before its requests.
	Decisions []turn.Decision `json:"decisions,omitempty"`
}

// DecideResult says that the decisions are in the journal. If AlreadySent is set, nothing is recorded, because the
// session already had all messages of DecideInput.MessageIDs.
type DecideResult struct {
	AlreadySent bool `json:"already_sent,omitempty"`
}

// FinishInput is the input of Finish.
type FinishInput struct {
	turn.FinishInput
	Tenant string `json:"tenant,omitempty"`
	// Opening is the message of a turn that could not begin, if its run continues with the next message. The journal
	// then records both, because the caller does not see how this turn ended.
	Opening *Message `json:"opening,omitempty"`
}

// FinishResult is the turn's end as the journal has it.
type FinishResult struct {
	State turn.State `json:"state"`
	// Answer is the partial text of an inference that was stopped.
	Answer string `json:"answer,omitempty"`
	// Usage is that of all attempts of the turn, if it differs from FinishInput.Counters: attempts failed or were stopped.
	Usage *turn.Usage `json:"usage,omitempty"`
	// Undelivered are the IDs of FinishInput.Messages that no turn has: a workflow task that was lost accepted them after
	// the turn was settled.
	Undelivered []string `json:"undelivered,omitempty"`
	// Stopped are the sessions of the subagents in the background that end with a turn that was stopped.
	Stopped []string `json:"stopped,omitempty"`
}
