package tools

import (
	"fmt"

	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// callClient returns the result of a client tool's call if the request has the client's response. Without one, the call
// is suspended: the turn hands it out and waits. If no client has sent a result in time, the outcome is unknown, because
// a client may have run the call.
func (r *Registry) callClient(req turn.ToolRequest) (turn.ToolResult, error) {
	switch {
	case len(req.Responses) == 0:
		return turn.ToolResult{Elicitations: []turn.Elicitation{{Key: "result"}}, Continuation: []byte{}}, nil
	case req.Responses[0].Action != turn.ElicitationAccept:
		why := "no result has come in time"
		return tool.Unknown(req.Tool, tool.Ending{Stage: tool.StageSent, By: tool.EndedByDeadline}, why), nil
	}
	given, err := turn.ClientResultOf(req.Responses[0])
	if err != nil {
		return turn.ToolResult{}, fmt.Errorf("reading the result: %w", err)
	}
	limits := tool.Limits{Shown: r.opts.MaxResultBytes, Full: maxFunctionBytes}
	out := tool.Text(printable.Head(given.Text, maxFunctionBytes), limits, r.opts.Secrets.Values)
	out.SizeBytes, out.FromServer = int64(len(given.Text)), true
	if given.Failed {
		out.Outcome = turn.OutcomeError
	}
	return out, nil
}
