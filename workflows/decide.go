package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// DecideInput is the input of the update Decide: what a client decides about a pending request. Which fields it has
// depends on the kind of the request. Session, Turn, Request and ArgumentsHash are those of the request, or of its
// turn.Event and its data.
type DecideInput struct {
	Version int    `json:"v,omitempty"`
	Session string `json:"session,omitempty"` // empty: the session of the workflow
	Turn    string `json:"turn,omitempty"`    // empty: the running turn
	Request string `json:"request"`           // the ID of the turn.Request, for instance "2.0", "q2" or "e2.0.1"
	By      string `json:"by,omitempty"`      // recorded with the decision, up to 120 bytes

	// The decision about an approval: Allow runs the call, and without it the call is denied. ArgumentsHash is that of the
	// request, and the decision is valid only for these arguments. Reason is recorded, up to 1000 bytes; the model is told
	// why a call is denied.
	Allow         bool   `json:"allow,omitempty"`
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	Reason        string `json:"reason,omitempty"`
	// Grant also permits later calls of the session: see turn.Request.Grants. It requires Allow. Covered also allows the
	// other open requests of the turn that the grant makes unnecessary.
	Grant   turn.GrantScope `json:"grant,omitempty"`
	Covered bool            `json:"covered,omitempty"`
	// ChangedPlan replaces the plan in the request, as JSON of a plan.Plan. It requires Allow.
	ChangedPlan json.RawMessage `json:"changed_plan,omitempty"`

	// Text answers a question; it becomes a user message of the turn. Blob is the hash of a text that is in the journal.
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`

	// Response responds to an elicitation, whose Key may be empty, or has the turn.ClientResult of a call.
	Response *turn.ElicitationResponse `json:"response,omitempty"`
}

// decide handles the update Decide: it records the decision, and adds the answer of a question to the turn's inbox. It
// returns the decision, which stands and will be carried out, and those of the calls that are allowed because of
// DecideInput.Covered, all without a Response. Repeating the decision about an approval changes nothing. If a message
// that may be a duplicate has answered the question, decide waits until the journal has said which.
func (r *run) decide(ctx workflow.Context, in DecideInput) ([]turn.Decision, error) {
	if r.requests.uncertain(in.Request) {
		err := workflow.Await(ctx, func() bool { return !r.requests.uncertain(in.Request) })
		if err == nil {
			err = r.validateDecide(ctx, in)
		}
		if err != nil {
			return nil, err
		}
	}
	req, _ := r.requests.find(in.Request) // validateDecide has found it
	decision := in.decision(req.Kind, workflow.Now(ctx))
	if req.Kind == turn.RequestQuestion {
		r.progress.Inbox = append(r.progress.Inbox, Message{ID: AnswerID(r.turnID, req.ID), Text: in.Text, Blob: in.Blob})
	}
	r.requests.decide(decision)
	decided := []turn.Request{req}
	for _, other := range r.requests.open() {
		if in.Covered && in.Allow && req.Covers(in.Grant, other) {
			decision.ID, decision.ArgumentsHash = other.ID, other.ArgumentsHash
			r.requests.decide(decision)
			decided = append(decided, other)
		}
	}
	result := make([]turn.Decision, len(decided))
	for i, d := range decided {
		result[i], _ = r.requests.decision(d.ID)
		result[i].Response = nil // the client has it
	}
	return result, nil
}

// The bounds of a decision's author and reason, in bytes.
const (
	maxBy     = 120
	maxReason = 1000
)

// decision returns the decision that the input makes about a request of this kind. A changed plan is its response.
func (in DecideInput) decision(kind turn.RequestKind, now time.Time) turn.Decision {
	d := turn.Decision{
		ID: in.Request, Status: turn.StatusAnswered, Allowed: in.Allow, ArgumentsHash: in.ArgumentsHash,
		By: turn.Truncate(in.By, maxBy), Reason: turn.Truncate(in.Reason, maxReason), At: now, Response: in.Response,
		Grant: in.Grant,
	}
	switch {
	case kind != turn.RequestApproval:
	case in.Allow:
		d.Status = turn.StatusAllowed
	default:
		d.Status = turn.StatusDenied
	}
	if len(in.ChangedPlan) > 0 {
		d.Response = &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: in.ChangedPlan}
	}
	return d
}

// validateDecide rejects an invalid decision before the workflow records it. It accepts a repeat of the decision about
// an approval or a result that stands, unless that is an expiry. The rejection of any other second decision has the first one as
// its detail.
func (r *run) validateDecide(ctx workflow.Context, in DecideInput) error {
	if err := in.checkSizes(); err != nil {
		return rejected(err.Code, err.Message)
	}
	req, err := r.findRequest(ctx, in)
	if err != nil {
		return err
	}
	if err := in.checkKind(req.Kind); err != nil {
		return rejected(err.Code, err.Message)
	}
	decision := in.decision(req.Kind, workflow.Now(ctx))
	if before, settled := r.requests.decision(req.ID); settled {
		if (req.Kind == turn.RequestApproval || req.Kind == turn.RequestResult) && repeats(decision, before) {
			return nil
		}
		if r.requests.uncertain(req.ID) {
			return nil // decide waits
		}
		return rejected(turn.CodeNotWaiting, fmt.Sprintf("%s %s is already %s%s; the first decision stands", req.Kind, req.ID,
			before.Status, byAuthor(before.By)), before)
	}
	if _, err := req.Settle(decision); err != nil {
		return rejected(err.Code, err.Message)
	}
	if err := r.checkPlan(in.ChangedPlan); err != nil {
		return rejected(err.Code, err.Message)
	}
	if req.Kind != turn.RequestQuestion {
		return nil
	}
	answer := Message{Text: in.Text, Blob: in.Blob}
	if err := cmp.Or(checkMessage(answer), checkEncodedSize(answer, maxAnswerBytes)); err != nil {
		return rejected(err.Code, err.Message)
	}
	return nil
}

// checkPlan rejects a changed plan with a written step whose tool the turn does not have. Whether its arguments fit is
// checked when the step is carried out.
func (r *run) checkPlan(changed json.RawMessage) *turn.Error {
	p, err := plan.Parse(string(changed))
	if len(changed) == 0 || err != nil { // Settle has checked it
		return nil
	}
	for _, due := range p.Calls(r.progress.Config.PlanAgent()) {
		has := func(t turn.Tool) bool { return t.ID == due.Tool || t.Wire == due.Tool }
		if !slices.ContainsFunc(r.progress.Config.Tools, has) {
			return invalid("the changed plan cannot be carried out: the turn has no tool %q for step %d",
				turn.Truncate(due.Tool, 120), due.Step)
		}
	}
	return nil
}

// checkKind rejects a decision that has fields for another kind of request than the one it names.
func (in DecideInput) checkKind(kind turn.RequestKind) *turn.Error {
	ofApproval := in.Allow || in.ArgumentsHash != "" || in.Grant != "" || len(in.ChangedPlan) > 0
	switch {
	case ofApproval && kind != turn.RequestApproval,
		(in.Text != "" || in.Blob != "") && kind != turn.RequestQuestion,
		in.Response != nil && kind != turn.RequestElicitation && kind != turn.RequestResult:
		return invalid("%s is of the kind %s: decide an approval with allow and arguments_hash, answer a question with "+
			"text, and respond to an elicitation or a result with response {action, content}, whose content has the "+
			"requested fields",
			in.Request, kind)
	}
	return nil
}

// repeats reports whether d is the decision that stands. An approval without a grant does not contradict one with a
// grant.
func repeats(d, before turn.Decision) bool {
	return before.Status != turn.StatusExpired && before.Allowed == d.Allowed && before.ArgumentsHash == d.ArgumentsHash &&
		(d.Grant == "" || d.Grant == before.Grant) && reflect.DeepEqual(d.Response, before.Response)
}

// byAuthor returns " by who" for a message about a decision, or "" if its author is unknown.
func byAuthor(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// findRequest returns the request that a client decides, or an error that says why it accepts no decision. A request
// that is already settled is not an error, because the client may repeat its decision. If a workflow task has both the
// update and a stop or the end of a call, the SDK runs findRequest before the workflow code that notices the latter.
func (r *run) findRequest(ctx workflow.Context, in DecideInput) (turn.Request, error) {
	req, known := r.requests.find(in.Request)
	switch {
	case r.stopping, ctx.Err() != nil:
		return req, rejected(turn.CodeNotWaiting, "the turn was stopped")
	case in.Session != "" && in.Session != r.session:
		return req, rejected(turn.CodeInputInvalid, fmt.Sprintf("the decision is for session %q and was sent to session %q",
			turn.Truncate(in.Session, 80), r.session))
	case in.Turn != "" && in.Turn != r.turnID:
		return req, rejected(turn.CodeNotWaiting,
			fmt.Sprintf("turn %s is not the running turn of this session", turn.Truncate(in.Turn, 80)))
	case !known:
		return req, rejected(turn.CodeNotWaiting,
			fmt.Sprintf("this turn has no open request %q", turn.Truncate(in.Request, 40)))
	}
	_, settled := r.requests.decision(req.ID)
	expired := !req.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(req.ExpiresAt)
	switch {
	case settled:
	case expired:
		return req, rejected(turn.CodeApprovalExpired,
			fmt.Sprintf("%s %s expired at %s", req.Kind, req.ID, req.ExpiresAt.UTC().Format(time.RFC3339)))
	case r.abandoned(req):
		return req, rejected(turn.CodeNotWaiting,
			fmt.Sprintf("the server of call %s no longer waits for %s %s", req.Call, req.Kind, req.ID))
	}
	return req, nil
}

// maxDecision bounds a DecideInput without its text, its plan and its response's content, in bytes of JSON.
const maxDecision = 16 << 10

// checkSizes rejects a decision of a newer client, or one whose fields are too large. The text and the changed plan
// have their own bounds: see validateDecide.
func (in DecideInput) checkSizes() *turn.Error {
	if err := checkVersion(in.Version); err != nil {
		return err
	}
	in.Text, in.ChangedPlan = "", nil
	if in.Response != nil {
		if len(in.Response.Content) > turn.MaxResponseBytes {
			return invalid("the response is %d bytes; the maximum is %d", len(in.Response.Content), turn.MaxResponseBytes)
		}
		response := *in.Response
		response.Content = nil
		in.Response = &response
	}
	return checkSize("decision, without its text,", in, maxDecision)
}
