package tools

import (
	"context"

	"github.com/everturn/everturn/workflows/turn"
)

// ended is how a function ended: with a result, or with an error that says that the call was not made.
type ended struct {
	result turn.ToolResult
	err    error
}

// await waits until a function has ended or ctx has.
func await(ctx context.Context, req turn.ToolRequest, done <-chan ended) (end ended) {
	select {
	case end = <-done:
	case <-ctx.Done():
		select {
		case end = <-done: // both were ready, and a result takes precedence over a deadline
		default:
			end.result = unanswered(ctx, req)
		}
	}
	return end
}
