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
// its activity. Every method is idempotent: a repeated call with the same input finds the first call's result in the
// journal.
type Activities interface {
	// Begin appends the turn's message to its session and freezes the turn config.
	Begin(context.Context, BeginInput) (BeginResult, error)
	// Infer appends the last step's results, calls the model and appends its completion.
	Infer(context.Context, InferInput) (InferResult, error)
	// RefreshTools checks whether servers that were unavailable to the turn are available again, and adds their tools.
	RefreshTools(context.Context, RefreshInput) (RefreshResult, error)
	// CallTool claims one call, runs it, settles it and returns a receipt.
	CallTool(context.Context, CallInput) (CallResult, error)
	// BeginSubagent claims a call of an agent's tool, and returns the message with which the agent's turn begins and the
	// turn's allowance, or the receipt of a call that is settled already.
	BeginSubagent(context.Context, CallInput) (CallResult, error)
	// SettleSubagent settles a call that BeginSubagent has claimed: with the answer of the agent's turn, or with an error
	// if the turn could not begin.
	SettleSubagent(context.Context, CallInput) (CallResult, error)
	// Ask records the requests that the turn waits for, at least one, so that clients can see them. It returns the
	// decisions that the journal already has, because the turn was reset to a point before its requests.
	Ask(context.Context, []turn.Request) ([]turn.Decision, error)
	// Decide records the decisions of requests, including expiries: of each request, only Session, Turn, ID and Decision
	// count. It records nothing and returns true if the session already has all messages that answer the question.
	Decide(context.Context, []turn.Request) (alreadySent bool, err error)
	// Finish settles the turn.
	Finish(context.Context, FinishInput) (FinishResult, error)
	// Compact compacts the conversation of a session whose turn has ended.
	Compact(context.Context, CompactInput) (CompactResult, error)
}

// call runs the activity act of the port. Unlike workflow.ExecuteActivity, it lets the compiler check the types of
// input and result. It returns as soon as ctx is cancelled, before the activity has ended: the activity gets the
// cancellation with its next heartbeat, and the journal rejects its writes once the turn is settled.
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

// callLocal runs the activity act of the port as a local activity, in the process of the workflow task.
func callLocal[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error),
	in In) (Out, error) {
	var out Out
	err := workflow.ExecuteLocalActivity(ctx, activityName(act), in).Get(ctx, &out)
	return out, err
}

// activityName returns the name of a method of an interface, given as a method expression such as Activities.Infer. The
// workflows start activities by name because the SDK does not accept a method of an interface.
func activityName(method any) string {
	name := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// BeginInput is the input of Begin. The activity adds the turn config.
type BeginInput struct {
	turn.BeginInput
	Limits *LimitsRequest `json:"limits,omitempty"`
	// OutputSchema is the OutputSchema of the turn's message or Input.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Context      json.RawMessage `json:"context,omitempty"` // of the turn's message or Input
}

// BeginResult is the state from which a turn starts.
type BeginResult struct {
	Config turn.Config `json:"config"`
	Head   turn.Head   `json:"head"` // right after the turn's message
	// Duplicate is set if another turn has already received this message. It is the result of that turn, or what is known
	// of it before the turn has ended.
	Duplicate *Result `json:"duplicate,omitempty"`
	// Kept means that the message begins no turn. It is the answer of a subagent that a user has stopped, or that has left
	// too little of the limits for another turn. The session's next inference gets it.
	Kept bool `json:"kept,omitempty"`
	// Earlier and Later are messages that the session's previous turn has left. If there are Earlier ones, nothing has
	// begun: the first of them must begin the turn. Later ones come after this message; the turn gets them next.
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
	Recovered    []string    `json:"recovered,omitempty"`     // the servers of these tools
	Unavailable  []string    `json:"unavailable,omitempty"`
}

// InferInput is the input of one inference. It names the transcript by reference.
type InferInput struct {
	Session  string             `json:"session"`
	Turn     string             `json:"turn"`
	Step     int                `json:"step"`
	Expect   turn.Head          `json:"expect"` // the transcript's head before Outcomes are appended
	Outcomes []turn.CallOutcome `json:"outcomes,omitempty"`
	// Messages are the messages to merge into the turn. Infer appends them after Outcomes and skips a message whose ID the
	// session already has.
	Messages []Message       `json:"messages,omitempty"`
	Prompt   turn.PromptSpec `json:"plan"`
	Budget   time.Duration   `json:"budget"` // working time left, over all attempts
	// Tenant, Provider and Background select the fleet limits that apply.
	Tenant     string `json:"tenant,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Background bool   `json:"background,omitempty"`
	// Subagents is what the turn's subagents have used or may still use. Its Tokens and Cost count against the turn's
	// max_tokens and max_cost_usd.
	Subagents turn.Spending `json:"subagents,omitzero"`
	// UsageUnknown is set if the step before failed. The result then has InferResult.TurnUsage.
	UsageUnknown bool `json:"usage_unknown,omitempty"`
}

// InferResult is a proposal and what it cost. The journal has the complete completion.
type InferResult struct {
	Proposal turn.Proposal `json:"proposal"`
	Head     turn.Head     `json:"head"` // after the completion
	Usage    turn.Usage    `json:"usage"`
	// TurnUsage is the usage of the whole turn, with that of steps that have failed: see InferInput.UsageUnknown.
	TurnUsage *turn.Usage   `json:"turn_usage,omitempty"`
	Failures  int           `json:"failures,omitempty"` // attempts whose stream was cut, which cost money
	Busy      time.Duration `json:"busy"`               // working time, over all attempts
	// Provider and Model are set if a fallback has taken over from the turn's own model.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Undelivered are the IDs of messages that came too late: the inference was settled without them before a reset.
	Undelivered []string `json:"undelivered,omitempty"`
}

// CallInput is the input of CallTool, BeginSubagent and SettleSubagent. Tool and the arguments in Call are for display;
// the activity runs what the journal holds.
type CallInput struct {
	Session      string        `json:"session"`
	Tenant       string        `json:"tenant,omitempty"`
	Turn         string        `json:"turn"`
	Step         int           `json:"step"`
	Call         turn.ToolCall `json:"call"` // as in a turn.Proposal
	Tool         turn.Tool     `json:"tool"`
	PromptConfig string        `json:"prompt_config"` // blob with the frozen schemas
	Attempt      int           `json:"attempt"`       // the attempt, counted from 1
	Timeout      time.Duration `json:"timeout"`
	// TotalTimeout bounds a call whose progress renews Timeout. If it is 0, progress does not renew Timeout.
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	// ServerWait is how long an unsent call may wait for its server, less the time that earlier attempts used. Budget
	// is the turn's remaining working time, for waiting and running together.
	ServerWait time.Duration `json:"server_wait,omitempty"`
	Budget     time.Duration `json:"budget,omitempty"`
	Model      string        `json:"model,omitempty"` // the model that requested the call
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
	// RetryIfError means that the workflow will attempt the call once more if its tool returns an error.
	RetryIfError bool `json:"retry_if_error,omitempty"`
	// Resume means that the turn has already called this server, which has session affinity, on this worker.
	Resume bool `json:"resume,omitempty"`
	// OwningCall is the call that created the turn's connection to that server. If the connection on the worker has
	// another owning call, the server has lost the state of the earlier calls.
	OwningCall string `json:"owning_call,omitempty"`
	// Granted, of BeginSubagent, is the subagent's allowance.
	Granted turn.Allowance `json:"granted,omitzero"`
	// Problem, of SettleSubagent, says why the subagent's workflow failed. It is the call's error if the journal has no
	// turn of the subagent. Started settles the call of a subagent in the background before its turn has ended, and
	// Deliver requests CallResult.Message, with which the answer of such a subagent goes to its caller's session.
	Problem string `json:"problem,omitempty"`
	Started bool   `json:"started,omitempty"`
	Deliver bool   `json:"deliver,omitempty"`
}

// CallResult is the receipt of a call. The result of BeginSubagent has no Outcome unless the call is settled already.
type CallResult struct {
	CallID  string       `json:"call_id"`
	Tool    string       `json:"tool"`
	Outcome turn.Outcome `json:"outcome"`
	Preview string       `json:"preview,omitempty"` // of the result's text
	// ResultHash is a hash of the result's whole text; empty if unknown.
	ResultHash string        `json:"result_hash,omitempty"`
	Busy       time.Duration `json:"busy"`
	// Elicitations are the server's requests for user input. While there are any, the call has no outcome and waits.
	Elicitations []turn.Elicitation `json:"elicitations,omitempty"`
	// ElicitationAttempt is the attempt that recorded the elicitations in the journal: this attempt, or an earlier one
	// that was lost afterwards.
	ElicitationAttempt int `json:"elicitation_attempt,omitempty"`
	// StickyQueue is the task queue of the worker that holds the turn's connection to this server.
	StickyQueue string `json:"sticky_queue,omitempty"`
	// Used is what the called subagent has used, including its own subagents; nil for calls of other tools.
	Used *turn.Spending `json:"used,omitempty"`
	// Message begins the subagent's turn, if BeginSubagent returns it, or has its answer, if CallInput.Deliver is set.
	Message *Message `json:"message,omitempty"`
	// Granted is the subagent's allowance, as the first claim of the call has recorded it; only BeginSubagent sets it.
	Granted turn.Allowance `json:"granted,omitzero"`
}

// FinishInput is the input of Finish.
type FinishInput struct {
	turn.FinishInput
	Tenant string `json:"tenant,omitempty"`
	// Opening is set for a turn whose Begin failed. It is the turn's first message, which Finish records together with the
	// failure, because the message's sender does not see how the workflow ended.
	Opening *Message `json:"opening,omitempty"`
	// Caller is set together with Opening if the turn is that of a subagent.
	Caller turn.Caller `json:"caller,omitzero"`
}

// FinishResult is the turn's end as the journal has it.
type FinishResult struct {
	State turn.State `json:"state"`
	// Answer is the partial text of an inference that was stopped.
	Answer string `json:"answer,omitempty"`
	// Usage is the usage of all attempts of the turn. It is nil if FinishInput.Counters has the same, which is not so if
	// attempts failed or were stopped.
	Usage *turn.Usage `json:"usage,omitempty"`
	// Undelivered are the IDs of FinishInput.Messages that no turn of the session has. A Finish whose workflow task was
	// lost had settled the turn before the workflow accepted these messages.
	Undelivered []string `json:"undelivered,omitempty"`
	// Stopped is set for a cancelled turn: the sessions of the session's subagents in the background, which end with it.
	Stopped []string `json:"stopped,omitempty"`
}
