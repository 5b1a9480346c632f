package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// approvals requests approval for all calls of a step that need it, at once, and waits until each has a decision. It
// returns the decisions by call ID. If it returns errMoves, it has kept the calls for the next run.
func (r *run) approvals(ctx workflow.Context, p turn.Proposal) (map[string]turn.Decision, error) {
	within := r.requestTimeout(ctx, r.progress.Config.Approvals.Expiry)
	expiresAt := expiry(ctx, within)
	decisions, err := r.request(ctx, r.approvalRequests(p, expiresAt), within, nil)
	if errors.Is(err, errMoves) {
		r.keepProposal(p, expiresAt)
	}
	return decisions, err
}

// approvalRequests returns a request for each call that needs approval. A call whose permit has a Code, or of an
// unknown tool, cannot run whatever a user decides, so it gets none.
func (r *run) approvalRequests(p turn.Proposal, expiresAt time.Time) []turn.Request {
	var requests []turn.Request
	beside := r.unasked(p)
	for _, c := range p.Calls {
		tool, known := r.progress.Config.Find(c.Tool)
		if permit := p.Permits[c.ID]; permit.Permission == turn.Ask && known && permit.Code == "" {
			requests = append(requests, turn.Request{
				ID: c.ID, Kind: turn.RequestApproval, Step: r.progress.Counters.Step, Tool: c.Tool, Arguments: c.Arguments,
				ArgumentsHash: c.ArgumentsHash, Risk: tool.Risk, Why: permit.Why, MaxGrant: permit.MaxGrant,
				Beside: beside, ExpiresAt: expiresAt,
			})
		}
	}
	return requests
}

// unasked returns the calls of a proposal that run without an approval and may change or send something, or nil.
func (r *run) unasked(p turn.Proposal) *turn.Beside {
	var beside turn.Beside
	for _, c := range p.Calls {
		tool, known := r.progress.Config.Find(c.Tool)
		if permit := p.Permits[c.ID]; permit.Permission != turn.Allow || !known || permit.Code != "" || tool.ReadOnly {
			continue
		}
		if beside.Count++; beside.Count <= turn.MaxBeside {
			beside.Calls = append(beside.Calls, turn.ToolCall{ID: c.ID, Tool: c.Tool})
		}
	}
	if beside.Count == 0 {
		return nil
	}
	return &beside
}
