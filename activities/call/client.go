package call

import (
	"context"
	"fmt"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// wholeResponses returns the responses to what the call has asked for. A client's result that is a blob of the journal
// has its text there.
func (r *Runner) wholeResponses(ctx context.Context, in workflows.CallInput) ([]turn.ElicitationResponse, error) {
	if in.Tool.Activity != turn.ActivityClient || len(in.Responses) == 0 ||
		in.Responses[0].Action != turn.ElicitationAccept {
		return in.Responses, nil
	}
	result, err := turn.ClientResultOf(in.Responses[0])
	if err != nil || result.Blob == "" {
		return in.Responses, err
	}
	text, err := r.journal.GetBlob(ctx, result.Blob)
	if err != nil {
		return nil, fmt.Errorf("reading the result of the client: %w", err)
	}
	response, err := turn.ClientResult{Text: string(text), Failed: result.Failed}.Response()
	return []turn.ElicitationResponse{*response}, err
}
