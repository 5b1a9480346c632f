package workflows

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Activities is the port through which the Turn workflow reaches the world. A method's name is its activity's type.
// Every method is idempotent by what it is asked: a repeated call finds in the journal what the first one did.
type Activities interface {
	// Begin takes the turn's message into its session and pins the turn's configuration.
	Begin(context.Context, BeginInput) (BeginResult, error)
	// Infer appends the last step's results, asks the model and appends its answer.
	Infer(context.Context, InferInput) (InferResult, error)
	// RefreshTools looks whether servers that were unavailable to the turn are back, and pins their tools.
	RefreshTools(context.Context, RefreshInput) (RefreshResult, error)
	// CallTool claims one call, runs it, settles it and returns a receipt.
	CallTool(context.Context, CallInput) (CallResult, error)
	// Ask puts what the turn waits for before people.
	Ask(context.Context, AskInput) (AskResult, error)
	// Decide records what people said, or that nobody did in time.
	Decide(context.Context, DecideInput) (DecideResult, error)
	// Finish settles the turn.
	Finish(context.Context, FinishInput) (FinishResult, error)
}

// call runs an activity of the port. In and Out are checked by the compiler, which the SDK's own call is not. It
// returns as soon as ctx is cancelled: the activity hears of it with its next heartbeat, and what it does until then the
// journal no longer takes.
func call[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	future := workflow.ExecuteActivity(ctx, activityName(act), in)
	if workflow.Await(ctx, future.IsReady) != nil {
		return out, ctx.Err()
	}
	err := future.Get(ctx, &out)
	return out, err
}

// callLocal runs an activity of the port inside the workflow task.
func callLocal[In, Out any](ctx workflow.Context, act func(Activities, context.Context, In) (Out, error), in In) (Out, error) {
	var out Out
	err := workflow.ExecuteLocalActivity(ctx, activityName(act), in).Get(ctx, &out)
	return out, err
}

// activityName is the method's name: the SDK takes a local activity's function as it is and finds an interface's method
// wanting, so both kinds go by name.
func activityName(method any) string {
	name := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// BeginInput asks for a turn to be opened.
type BeginInput struct {
	Session    string         `json:"session"`
	Tenant     string         `json:"tenant,omitempty"`
	Turn       string         `json:"turn"`
	WorkflowID string         `json:"workflow_id"`
	RunID      string         `json:"run_id"`
	Agent      string         `json:"agent,omitempty"`
	Message    Message        `json:"message"`
	Limits     *LimitsRequest `json:"limits,omitempty"`
}

// BeginResult is what a turn starts from.
type BeginResult struct {
	Config turn.Config `json:"pins"`
	Head   turn.Head   `json:"head"` // right after the turn's message
	// Duplicate is set where another turn has had this message before: its result, as far as it is known.
	Duplicate *Result `json:"duplicate,omitempty"`
	Resumed   bool    `json:"resumed,omitempty"`
	// Closed is the session's unfinished turn that was closed, if there was one.
	Closed string `json:"closed,omitempty"`
}

// RefreshInput asks for the tools of servers that a turn lacks.
type RefreshInput struct {
	Session      string   `json:"session"`
	Turn         string   `json:"turn"`
	PromptConfig string   `json:"profile"`     // blob with the pinned schemas
	Unavailable  []string `json:"unavailable"` // servers
}

// RefreshResult has the tools that came back. Without any, only Version is set.
type RefreshResult struct {
	PromptConfig string      `json:"profile,omitempty"` // the blob that replaces the turn's
	Tools        []turn.Tool `json:"tools,omitempty"`   // in addition to the turn's
	Back         []string    `json:"back,omitempty"`    // servers whose tools these are
	Unavailable  []string    `json:"unavailable,omitempty"`
}

// InferInput asks for one inference, by reference.
type InferInput struct {
	Session string             `json:"session"`
	Turn    string             `json:"turn"`
	Step    int                `json:"step"`
	Expect  turn.Head          `json:"expect"` // before Results are appended
	Results []turn.CallOutcome `json:"results,omitempty"`
	// Messages came in mid-turn: they are appended after Results. One whose ID the session has had is left out.
	Messages []Message     `json:"messages,omitempty"`
	Plan     turn.Plan     `json:"plan"`
	Budget   time.Duration `json:"budget"` // working time left, over all attempts
	// RetryMax is how often a failure of transport or rate may be tried again.
	RetryMax int `json:"retry_max"`
}

// InferResult is a proposal and what it took. The whole answer is in the journal.
type InferResult struct {
	Proposal turn.Proposal `json:"proposal"`
	Head     turn.Head     `json:"head"` // after the answer
	Usage    turn.Usage    `json:"usage"`
	Failures int           `json:"failures,omitempty"` // attempts that the provider failed
	Attempt  int           `json:"attempt"`            // attempts in all, crashes included
	Busy     time.Duration `json:"busy"`
	// Reused: the inference had been settled before and was not sent again.
	Reused bool `json:"reused,omitempty"`
	// Undelivered are the IDs of messages that came too late for it: it was settled without them, before a reset.
	Undelivered []string `json:"untaken,omitempty"`
}

// CallInput asks for one tool call. Tool and arguments are for people; what runs is what the journal holds.
type CallInput struct {
	Session      string            `json:"session"`
	Tenant       string            `json:"tenant,omitempty"`
	Turn         string            `json:"turn"`
	Step         int               `json:"step"`
	Call         turn.CallProposal `json:"call"`
	Tool         turn.Tool         `json:"tool"`
	PromptConfig string            `json:"profile"` // blob with the pinned schemas
	Attempt      int               `json:"attempt"` // the dispatch, from 1
	Timeout      time.Duration     `json:"timeout"`
	// TotalTimeout bounds a call whose progress renews Timeout; 0: nothing does.
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	// Wait is how long the call may wait for its server if it cannot be sent, earlier dispatches deducted. Left
	// is the working time that the turn has left: for waiting and running together.
	Wait time.Duration `json:"wait,omitempty"`
	Left time.Duration `json:"left,omitempty"`
	// Hold is how much longer it may take while its server holds it and asks somebody.
	Hold time.Duration `json:"hold,omitempty"`
	// Approved: a person has to have allowed this call with these arguments, and the ledger is to check it.
	Approved bool `json:"approved,omitempty"`
	// Replies go on with a call whose server asked for something, and Answers is the dispatch whose questions they answer:
	// CallResult.Asked. Where the call has come further since then, they are not for what is asked now.
	Responses []turn.ElicitationResponse `json:"replies,omitempty"`
	Answers   int                        `json:"answers,omitempty"`
	// Again: where nobody can know whether the call took effect, the workflow will dispatch it once more. See Repeats.
	Again bool `json:"again,omitempty"`
	// Resume: the turn has called this stateful server before, on this worker.
	Resume bool `json:"resume,omitempty"`
	// Founder is the call with which that began. Since it was dispatched, the server may have lost what it remembered and
	// begun anew with another one.
	OwningCall string `json:"founder,omitempty"`
}

// CallResult is a call's receipt.
type CallResult struct {
	CallID    string        `json:"call_id"`
	Tool      string        `json:"tool"`
	Arguments string        `json:"arguments"` // preview
	Outcome   turn.Outcome  `json:"outcome"`
	Preview   string        `json:"preview,omitempty"`
	SizeBytes int64         `json:"size_bytes,omitempty"`
	Busy      time.Duration `json:"busy"`             // without what it was held for
	Reused    bool          `json:"reused,omitempty"` // the outcome was in the ledger
	// Elicitations are what the call's server wants to know before it goes on. The call has no outcome then, and waits.
	Elicitations []turn.Elicitation `json:"inquiries,omitempty"`
	// Asked is the dispatch that has left them in the ledger: this one, or one before it whose end was lost.
	Asked int `json:"asked,omitempty"`
	// Home is the task queue of the worker whose connection the turn has to keep to for this server.
	StickyQueue string `json:"home,omitempty"`
}

// AskInput opens waits. All approvals that one answer needs are asked for together.
type AskInput struct {
	Session  string         `json:"session"`
	Turn     string         `json:"turn"`
	Requests []turn.Request `json:"waits"`
	// Head is that of the transcript while the turn waits: nobody needs to keep it at hand.
	Head turn.Head `json:"head,omitzero"`
}

// AskResult says that people can see the waits.
type AskResult struct {
	// Decisions are there already where the turn was reset to before its waits.
	Decisions []turn.Decision `json:"rulings,omitempty"`
}

// DecideInput closes waits.
type DecideInput struct {
	Session   string          `json:"session"`
	Turn      string          `json:"turn"`
	Decisions []turn.Decision `json:"rulings"`
	// Said are the IDs of the messages that are taken for an answer. Where the session has had each of them before,
	// nobody has answered anything and nothing is recorded.
	Said []string `json:"said,omitempty"`
}

// DecideResult says that the rulings are in the journal, unless all that was said was heard before.
type DecideResult struct {
	Heard bool `json:"heard,omitempty"`
}

// FinishInput settles a turn.
type FinishInput struct {
	Session string             `json:"session"`
	Tenant  string             `json:"tenant,omitempty"`
	Turn    string             `json:"turn"`
	Results []turn.CallOutcome `json:"results,omitempty"`
	// Messages were accepted and come too late for an answer: the turn was stopped. The transcript keeps them.
	Messages []Message `json:"messages,omitempty"`
	// Opening is the message of a turn that could not begin and whose end nobody sees, because the run goes on with the
	// next one: the journal keeps both.
	Opening  *Message      `json:"opening,omitempty"`
	Ending   turn.Result   `json:"ending"`
	Counters turn.Counters `json:"counters"`
}

// FinishResult says how the journal has the turn.
type FinishResult struct {
	State turn.State `json:"state"`
	// Answer is the text of an inference that was stopped in the middle, as far as it had come.
	Answer string `json:"answer,omitempty"`
	// Undelivered are the IDs of FinishInput.Messages that no turn has: they were accepted after the turn was settled, by a
	// workflow task that came to nothing.
	Untaken []string `json:"untaken,omitempty"`
}
