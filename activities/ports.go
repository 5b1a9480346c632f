package activities

import (
	"context"
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// Model is the port to model providers. Package activities/inference implements it.
type Model interface {
	// Infer sends the prompt and streams the completion into sink. It returns a whole completion or a *turn.Error with
	// one of the llm_ codes; it never retries. Cancelling ctx ends the request; the cause is in the error's chain.
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	// Takes reports whether the model accepts media of this type. Only accepted media have Data in the prompt.
	Takes(model, mediaType string) bool
}

// Tools is the port to the tool host. Package activities/tools implements it.
type Tools interface {
	// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
	Check(d turn.Descriptor, arguments json.RawMessage) error
	// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call
	// may be dispatched again; tool_drift means that the tool is no longer the one in the turn config. Every other
	// ending is a result, with outcome unknown if the tool may or may not have acted. Cancelling ctx cancels the call.
	Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error)
	// Await keeps a call whose result was ToolResult.Held open. It returns when the call has ended, when its server no
	// longer waits for the response, or when another Await begins for the call. Cancelling ctx cancels the call, unless
	// the cause is context.DeadlineExceeded. A call that is neither awaited nor continued is soon cancelled.
	Await(ctx context.Context, turnID, callID string)
}
