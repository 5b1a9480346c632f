package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Approval is a user's decision about one call. It is valid only for the arguments that the user saw.
type Approval struct {
	Version int    `json:"v,omitempty"`
	Turn    string `json:"turn,omitempty"` // empty: the running turn
	Call    string `json:"call"`
	Allow   bool   `json:"allow"`
	// ArgumentsHash is the ArgumentsHash of the turn.Request that the user saw.
	ArgumentsHash string `json:"arguments_hash"`
	By            string `json:"by,omitempty"`
	Reason        string `json:"reason,omitempty"` // shown to the model if the call is denied
	// Grant also permits later calls. It requires Allow.
	Grant turn.GrantScope `json:"grant,omitempty"`
	// ChangedPlan replaces the plan in the request. It requires Allow.
	ChangedPlan json.RawMessage `json:"changed_plan,omitempty"`
}

// ApprovalResult acknowledges an Approval: the decision stands and will be carried out.
type ApprovalResult struct {
	Turn    string `json:"turn"`
	Call    string `json:"call"`
	Allowed bool   `json:"allowed"`
	// Pending is the number of calls of the same step that still need a decision. None runs until all have one.
	Pending int `json:"pending"`
}

// approvals requests approval for all calls of a step that need it, at once, and waits until each has a decision. It
// returns the decisions by call ID. If it returns errMoves, it has kept the calls for the next run.
func (r *run) approvals(ctx workflow.Context, calls []turn.CallProposal) (map[string]turn.Decision, error) {
	within := r.requestTimeout(ctx, r.progress.Config.Approvals.Expiry)
	expiresAt := expiry(ctx, within)
	decisions, err := r.request(ctx, r.approvalRequests(calls, expiresAt), within, nil)
	if errors.Is(err, errMoves) {
		r.keepProposal(turn.Proposal{Kind: turn.ProposeCalls, Calls: calls}, expiresAt)
	}
	return decisions, err
}

// approvalRequests returns a request for each call that needs approval. A call with a Code, or of an unknown tool,
// cannot run whatever a user decides, so it gets none.
func (r *run) approvalRequests(calls []turn.CallProposal, expiresAt time.Time) []turn.Request {
	var requests []turn.Request
	beside := r.unasked(calls)
	for _, c := range calls {
		tool, known := r.progress.Config.Find(c.Tool)
		if c.Permission == turn.Ask && known && c.Code == "" {
			requests = append(requests, turn.Request{
				ID: c.ID, Kind: turn.RequestApproval, Step: r.progress.Counters.Step, Tool: c.Tool, Arguments: c.Arguments,
				ArgumentsHash: c.ArgumentsHash, Risk: tool.Risk, Why: c.Why, MaxGrant: c.MaxGrant,
				Beside: beside, ExpiresAt: expiresAt,
			})
		}
	}
	return requests
}

// unasked returns the calls of a step that run without an approval and may change or send something, or nil.
func (r *run) unasked(calls []turn.CallProposal) *turn.Beside {
	var beside turn.Beside
	for _, c := range calls {
		tool, known := r.progress.Config.Find(c.Tool)
		if c.Permission != turn.Allow || !known || c.Code != "" || tool.ReadOnly {
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

// approve handles the update Approve: it records the user's decision. Repeating the same decision changes nothing.
func (r *run) approve(ctx workflow.Context, a Approval) (ApprovalResult, error) {
	r.requests.decide(a.decision(ctx))
	return ApprovalResult{Turn: r.turnID, Call: a.Call, Allowed: a.Allow, Pending: len(r.requests.open())}, nil
}

// decision returns the decision that the approval makes. It carries a changed plan as a response.
func (a Approval) decision(ctx workflow.Context) turn.Decision {
	d := turn.Decision{
		ID: a.Call, Status: turn.StatusDenied, Allowed: a.Allow, ArgumentsHash: a.ArgumentsHash,
		By: turn.Truncate(a.By, maxBy), Reason: turn.Truncate(a.Reason, maxReason), At: workflow.Now(ctx), Grant: a.Grant,
	}
	if a.Allow {
		d.Status = turn.StatusAllowed
	}
	if len(a.ChangedPlan) > 0 {
		d.Response = &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: a.ChangedPlan}
	}
	return d
}

// The bounds of a decision's author and reason, in bytes.
const (
	maxBy     = 120
	maxReason = 1000
)

// validateApprove rejects an invalid approval before the workflow records it. It accepts a repeat of the decision that
// stands, unless that is an expiry.
func (r *run) validateApprove(ctx workflow.Context, a Approval) error {
	sized := a
	sized.ChangedPlan = nil // Settle checks its size
	if err := checkUpdate(a.Version, sized); err != nil {
		return rejected(err.Code, err.Message)
	}
	req, err := r.findRequest(ctx, a.Turn, a.Call, turn.RequestApproval)
	if err != nil {
		return err
	}
	if before, settled := r.requests.decision(a.Call); settled {
		// A repeated approval without a grant does not contradict one with a grant.
		same := before.Allowed == a.Allow && before.ArgumentsHash == a.ArgumentsHash &&
			(a.Grant == "" || a.Grant == before.Grant) && reflect.DeepEqual(a.decision(ctx).Response, before.Response)
		if same && before.Status != turn.StatusExpired {
			return nil
		}
		output := fmt.Sprintf("call %s is already %s%s; the first decision stands",
			a.Call, before.Status, byAuthor(before.By))
		return rejected(turn.CodeNotWaiting, output, before)
	}
	if _, err := req.Settle(a.decision(ctx)); err != nil {
		return rejected(err.Code, err.Message)
	}
	return nil
}

// byAuthor returns " by who" for a message about a decision, or "" if its author is unknown.
func byAuthor(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}
