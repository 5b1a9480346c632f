package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// DecisionStatus is how a Request was settled.
type DecisionStatus string

// The statuses of decisions.
const (
	StatusAllowed   DecisionStatus = "allowed"
	StatusDenied    DecisionStatus = "denied"
	StatusExpired   DecisionStatus = "expired"   // Decision.Allowed is the configured outcome
	StatusAnswered  DecisionStatus = "answered"  // a question, an elicitation or a result
	StatusCancelled DecisionStatus = "cancelled" // the turn was stopped
)

// ReasonCallEnded is the reason of a decision that closes an elicitation whose call ended before the response.
const ReasonCallEnded = "its call has ended"

// Decision settles a Request: a user's decision, or the request's expiry or cancellation.
type Decision struct {
	ID     string         `json:"id"` // of the Request
	Status DecisionStatus `json:"status"`
	// Allowed means that the call may run.
	Allowed bool `json:"allowed,omitempty"`
	// ArgumentsHash is the hash of the arguments that the user saw. The approval is valid for these arguments only.
	ArgumentsHash string    `json:"arguments_hash,omitempty"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	At            time.Time `json:"at"`
	// Response is the response to an elicitation, or has a ClientResult. In the approval of a plan that the user has changed, its Content is the
	// changed plan.
	Response *ElicitationResponse `json:"response,omitempty"`
	// Grant permits later calls of this tool in the session: with any arguments (GrantTool), to the same host (GrantHost),
	// with the same commands (GrantCommand) or with the same arguments (GrantCall).
	Grant GrantScope `json:"grant,omitempty"`
	// Messages are the IDs of the messages that answer a question, for the activity Decide. The journal does not keep
	// them.
	Messages []string `json:"messages,omitempty"`
}

// ResponseTo returns the response to q for the server. It is a cancel if the user did not respond.
func (d Decision) ResponseTo(q Elicitation) ElicitationResponse {
	if d.Response == nil {
		return ElicitationResponse{Key: q.Key, Action: ElicitationCancel}
	}
	return ElicitationResponse{Key: q.Key, Action: d.Response.Action, Content: d.Response.Content}
}

// GrantScope is the scope of a grant.
type GrantScope string

// The scopes of grants.
const (
	GrantCall GrantScope = "call" // this tool with exactly these arguments
	GrantHost GrantScope = "host" // this tool with any URL of this host
	// GrantCommand is the scope of a tool that runs command lines: each of the line's commands with any further words.
	GrantCommand GrantScope = "command"
	GrantTool    GrantScope = "tool" // this tool
	// GrantNever appears only in MaxGrant: no grant can replace the approval, so each call needs its own.
	GrantNever GrantScope = "never"
)

// Grant is a session's permission for later calls of a tool that would otherwise need approval.
type Grant struct {
	Tool          string    `json:"tool"`
	ArgumentsHash string    `json:"arguments_hash,omitempty"` // or that of HostGrant or CommandGrant; empty: any arguments
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
}

// Covers reports whether the grant allows a call of the tool with these arguments, whose hash is argumentsHash.
// widest is the widest grant that Policy.Permit accepts for the call.
func (g Grant) Covers(tool, arguments, argumentsHash string, widest GrantScope) bool {
	switch {
	case g.Tool != tool:
		return false
	case g.ArgumentsHash == "": // a grant of the whole tool, which not every call accepts
		return widest == ""
	case g.ArgumentsHash == argumentsHash:
		return true
	}
	return widest == GrantHost && g.ArgumentsHash == HostGrant(arguments)
}

// MaxResponseBytes bounds the content of a response to an elicitation.
const MaxResponseBytes = 64 << 10

// Settle checks whether d may settle the request, and returns the decision to record: d, with the fields completed
// that it may leave out. The error's code is tool_drift if d names other arguments than the request, because an
// approval is valid only for the arguments that the user saw. Settle does not check the content of a response against
// the elicitation's schema; only the tool host can.
func (r Request) Settle(d Decision) (Decision, *Error) {
	if err := r.checkStatus(d); err != nil {
		return d, err
	}
	if d.Status == StatusExpired && d.ArgumentsHash == "" {
		d.ArgumentsHash = r.ArgumentsHash // the expiry decides about whatever arguments the request has
	}
	switch {
	case r.Kind == RequestApproval && d.Status == StatusAllowed && d.ArgumentsHash == "":
		return d, invalid("the approval does not name the arguments; give arguments_hash as the request has it")
	case (d.Allowed || d.ArgumentsHash != "") && d.ArgumentsHash != r.ArgumentsHash:
		return d, NewError(CodeToolDrift, nil, "call "+r.ID+" has other arguments than the decision names; look at it again")
	case d.Grant == "":
	case !slices.Contains([]GrantScope{GrantCall, GrantHost, GrantCommand, GrantTool}, d.Grant), d.Status != StatusAllowed:
		return d, invalid(`a grant is "call", "host", "command" or "tool", and goes with allow`)
	case !r.Grants(d.Grant):
		return d, invalid("%s", r.WhyNoGrant())
	}
	return r.settleResponse(d)
}

// checkStatus returns an error if d.Status does not fit the kind of the request or contradicts d.Allowed.
func (r Request) checkStatus(d Decision) *Error {
	approval := r.Kind == RequestApproval
	fits, allowed := false, false // whether the status fits the kind, and the value that d.Allowed must have
	switch d.Status {
	case StatusAllowed:
		fits, allowed = approval, true
	case StatusDenied:
		fits = approval || r.Kind == RequestElicitation
	case StatusAnswered:
		fits = !approval
	case StatusExpired:
		fits, allowed = true, d.Allowed && approval
	case StatusCancelled:
		fits = true
	}
	if !fits || d.Allowed != allowed {
		return invalid("status %q with allowed=%v does not settle a request of kind %q", d.Status, d.Allowed, r.Kind)
	}
	return nil
}

// settleResponse checks the decision's response and returns d with the normalized response. Only an elicitation, a
// result and the approval of a changed plan may have a response, and an answered elicitation or result must have one.
func (r Request) settleResponse(d Decision) (Decision, *Error) {
	switch {
	case r.Kind == RequestApproval && r.Tool == plan.Tool && d.Response != nil:
		return d, checkChangedPlan(d)
	case !r.TakesResponse() && d.Response != nil:
		return d, invalid("%s is not an elicitation; answer it with text", r.ID)
	case !r.TakesResponse(), d.Response == nil && d.Status != StatusAnswered:
		return d, nil
	case d.Response == nil && r.Kind == RequestResult:
		return d, invalid("%s waits for the result of call %s; send it with `everturn result`", r.ID, r.Call)
	case d.Response == nil:
		return d, invalid("%s asks for fields, not for a message; answer with response {action, content}",
			Truncate(r.Tool, 80))
	}
	response, err := d.Response.To(r.Elicitation)
	if err != nil {
		return d, err
	}
	if r.Kind == RequestResult {
		if _, err := ClientResultOf(response); err != nil {
			return d, invalid("the result of call %s: %v", r.Call, err)
		}
	}
	d.Response = &response
	return d, nil
}

// TakesResponse reports whether a decision about the request has a Response.
func (r Request) TakesResponse() bool { return r.Kind == RequestElicitation || r.Kind == RequestResult }

// To checks r as a response to the elicitation q and returns it with q's key. It drops the content unless the user
// accepted a form. A nil q means that the elicitation is unknown; To then checks only r itself.
func (r ElicitationResponse) To(q *Elicitation) (ElicitationResponse, *Error) {
	switch {
	case r.Action != ElicitationAccept && r.Action != ElicitationDecline && r.Action != ElicitationCancel:
		return r, invalid("the response's action is %q; it must be accept, decline or cancel", Truncate(string(r.Action), 40))
	case q != nil && r.Key != "" && r.Key != q.Key:
		return r, invalid("the response's key is %q and the elicitation's is %q; leave it out",
			Truncate(r.Key, 80), Truncate(q.Key, 80))
	case len(r.Content) > MaxResponseBytes:
		return r, invalid("the response is %d bytes; the maximum is %d", len(r.Content), MaxResponseBytes)
	}
	if q != nil {
		r.Key = q.Key
	}
	if r.Action != ElicitationAccept || q != nil && q.URL != "" {
		r.Content = nil
		return r, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(r.Content, &object); err != nil || object == nil {
		return r, invalid("the response's content is not a JSON object of the requested fields")
	}
	return r, nil
}

// invalid returns an Error with code input_invalid.
func invalid(format string, args ...any) *Error {
	return NewError(CodeInputInvalid, nil, fmt.Sprintf(format, args...))
}
