package activities

import (
	"context"
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// Model is the port to model providers; activities/inference implements it.
type Model interface {
	// Infer sends the prompt and streams the answer into sink. It returns a complete answer or a *turn.Error with
	// one of the llm_ codes; it never retries. Cancelling ctx ends the request; the cause is in the error's chain.
	Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error)
	// Takes reports whether the model is sent media of this type. Media of messages have Data only where it is.
	Takes(model, mediaType string) bool
}

// Tools is the port to the tool host; activities/toolbox implements it.
type Tools interface {
	// Check validates arguments against the descriptor's schema. The error's text is meant for the model.
	Check(d turn.Descriptor, arguments json.RawMessage) error
	// Call runs the tool once. A *turn.Error with code tool_not_sent means that nothing reached the tool and the call
	// may be dispatched again; tool_drift that the tool is no longer what was pinned. Every other ending is a result,
	// with outcome unknown where the tool may or may not have acted. Cancelling ctx cancels the call.
	Call(ctx context.Context, c turn.ToolRequest) (turn.ToolResult, error)
}
