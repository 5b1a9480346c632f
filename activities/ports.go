package activities

import (
	"context"
	"encoding/json"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Model is the port to model providers. Package activities/inference implements it.
type Model interface {
	// Infer sends the prompt and streams the completion into sink. It returns a whole completion or a *turn.Error with
	// one of the llm_ codes; it never retries. Cancelling ctx ends the request; the cause is in the error's chain. With
	// an error, the completion has the usage that the provider has reported, or nothing.
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	// Takes reports whether the prompt's model accepts media of this type. Only accepted media have Data in the prompt.
	Takes(p turn.Prompt, mediaType string) bool
}

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
	Check(d turn.Descriptor, arguments json.RawMessage) error
	// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call
	// may be attempted again; tool_drift means that the tool is no longer the one in the turn config. Every other
	// ending is a result, with outcome unknown if the tool may or may not have acted. Cancelling ctx cancels the call.
	Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error)
}

// Journal is what the activities need of a journal.DB, which documents the methods.
type Journal interface {
	Transcript
	Inferences
	Calls
	Requests
	Fleet
	OfferedBy(ctx context.Context, own map[string]string) ([]turn.Catalogue, error)
	PutBlob(ctx context.Context, mediaType string, b []byte) (hash string, err error)
	GetBlob(ctx context.Context, hash string) ([]byte, error)
	Tenant(tenant string) *journal.DB
}

// Transcript begins and ends turns, and reads their messages.
type Transcript interface {
	Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error)
	Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error)
	Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error)
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	StepMessage(ctx context.Context, key journal.StepKey) (turn.Message, error)
}

// Inferences is the ledger of inferences, with the events that they stream.
type Inferences interface {
	StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error)
	SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error)
	FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
		message string) (failures int, err error)
	ReleaseInference(ctx context.Context, key journal.StepKey, attempt int) error
	ChangeModel(ctx context.Context, key journal.StepKey, attempt int, event turn.Event, change turn.ModelEvent) error
	ModelChange(ctx context.Context, key journal.StepKey) (turn.ModelEvent, error)
	ReserveUsage(ctx context.Context, in journal.ReserveInput) (output int64, refusal *journal.BudgetRefusal, err error)
	RecordUsage(ctx context.Context, in journal.AttemptUsage) error
	AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error
	AppendStream(ctx context.Context, in journal.StreamInput) error
	LastInput(ctx context.Context, turnID string, seq int64) (tokens, upTo int64, err error)
	SettleCompaction(ctx context.Context, in journal.SettleCompaction) (turn.Compaction, error)
	Compaction(ctx context.Context, turnID string, seq int64) (*turn.Compaction, error)
	CompactionUsage(ctx context.Context, key journal.StepKey) (turn.Usage, error)
}

// Calls is the ledger of tool calls.
type Calls interface {
	ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error)
	SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error)
	ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error
	SuspendCall(ctx context.Context, in journal.SettleInput) error
	NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress, at time.Time) error
	Taint(ctx context.Context, turnID string) (*journal.TaintSource, error)
}

// Requests records what turns wait for, and the decisions.
type Requests interface {
	Ask(ctx context.Context, in turn.AskInput) ([]turn.Decision, error)
	Decide(ctx context.Context, in turn.DecisionsInput) error
	Grants(ctx context.Context, turnID string) ([]turn.Grant, error)
}
