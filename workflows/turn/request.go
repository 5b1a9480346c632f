package turn

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// Approvals bounds how long a turn waits for decisions. Zero means no bound.
type Approvals struct {
	ApprovalExpiry time.Duration `json:"approval_expiry,omitempty"`
	// OnExpiry decides an approval that expires: Deny or Allow.
	OnExpiry       Permission    `json:"on_expiry,omitempty"`
	QuestionExpiry time.Duration `json:"question_expiry,omitempty"`
}

// RequestKind is the kind of a Request.
type RequestKind string

// The kinds of requests.
const (
	RequestApproval    RequestKind = "approval"
	RequestQuestion    RequestKind = "question"
	RequestElicitation RequestKind = "elicitation" // from a tool's server, in the middle of a call
)

// Request is an approval, a question or an elicitation that a turn waits for.
type Request struct {
	// ID is unique in its turn: the call's ID ("3.0") for an approval, "q<step>" for a question, and "e<call>.<n>" for
	// an elicitation, with n counting from 1.
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	Step int         `json:"step"`
	// The fields of an approval: the call, its arguments (a preview in the workflow), and the reason for the request.
	Tool          string `json:"tool,omitempty"`
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	Risk          Risk   `json:"risk,omitempty"`
	Why           string `json:"why,omitempty"`
	// MaxGrant is the widest grant that would make this request unnecessary: GrantCall, GrantHost, GrantNever, or empty
	// if GrantTool would.
	MaxGrant GrantScope `json:"max_grant,omitempty"`
	// Question is a preview; the transcript has the whole text.
	Question string `json:"question,omitempty"`
	// Elicitation is the complete elicitation, and Call is the call that it belongs to.
	Elicitation *Elicitation `json:"elicitation,omitempty"`
	Call        string       `json:"call,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"`
}

// Grants reports whether a grant of scope s would make the request unnecessary.
func (w Request) Grants(s GrantScope) bool {
	switch w.MaxGrant {
	case "":
		return s == GrantCall || s == GrantTool
	case GrantHost:
		return s == GrantCall || s == GrantHost
	}
	return w.MaxGrant == s
}

// Covers reports whether a grant of scope s, given with the approval w, makes the approval other of the same turn
// unnecessary.
func (w Request) Covers(s GrantScope, other Request) bool {
	return s != "" && other.Kind == RequestApproval && w.ID != other.ID && w.Tool == other.Tool && w.Risk == other.Risk &&
		w.Grants(s) && other.Grants(s) && (s == GrantTool || w.ArgumentsHash == other.ArgumentsHash ||
		s == GrantHost && HostOf(w.Arguments) != "" && HostOf(w.Arguments) == HostOf(other.Arguments))
}

// WhyNoGrant says why the request cannot be remembered with the wanted scope, and which scope it accepts. See Grants.
func (w Request) WhyNoGrant() string {
	switch w.MaxGrant {
	case "":
		return fmt.Sprintf("call %s is not remembered for a host: allow it for exactly these arguments (grant %q), or for "+
			"the whole tool (grant %q)", w.ID, GrantCall, GrantTool)
	case GrantHost:
		return fmt.Sprintf("call %s cannot be remembered for the whole tool: it needs an approval because of its host; "+
			"allow it once, for its host (grant %q), or for exactly these arguments (grant %q)", w.ID, GrantHost, GrantCall)
	case GrantCall:
		return fmt.Sprintf(
			"call %s cannot be remembered for the whole tool: it needs an approval because of its arguments or "+
				"of the conversation's text; allow it once, or for exactly these arguments (grant %q)", w.ID, GrantCall)
	}
	return fmt.Sprintf("call %s cannot be remembered: policy requires approval of every call; allow it once", w.ID)
}

// Elicitation is a server's request for user input in the middle of a call.
type Elicitation struct {
	Key     string `json:"key"` // the server's own key of the request, unique within the call's round
	Message string `json:"message"`
	// Schema is the schema of the response's object: flat, with strings, numbers, booleans and choices. It is empty if
	// URL is set.
	Schema json.RawMessage `json:"schema,omitempty"`
	// URL is a page for the user to visit instead. The response then says only whether the user did.
	URL string `json:"url,omitempty"`
}

// ElicitationResponse is the response to an Elicitation.
type ElicitationResponse struct {
	Key     string            `json:"key"`
	Action  ElicitationAction `json:"action"`
	Content json.RawMessage   `json:"content,omitempty"` // an object of Elicitation.Schema, if Action is accept
}

// ElicitationAction is the user's reaction to an elicitation.
type ElicitationAction string

// The actions that the Model Context Protocol defines.
const (
	ElicitationAccept  ElicitationAction = "accept"
	ElicitationDecline ElicitationAction = "decline" // the user said no
	ElicitationCancel  ElicitationAction = "cancel"  // the request ended without a response
)

// DecisionStatus is how a Request was settled.
type DecisionStatus string

// The statuses of decisions.
const (
	StatusAllowed   DecisionStatus = "allowed"
	StatusDenied    DecisionStatus = "denied"
	StatusExpired   DecisionStatus = "expired"   // Decision.Allowed is the configured outcome
	StatusAnswered  DecisionStatus = "answered"  // a question
	StatusCancelled DecisionStatus = "cancelled" // the turn was stopped
)

// ReasonCallEnded is the reason of a decision that closes an elicitation whose call ended before the response.
const ReasonCallEnded = "its call has ended"

// Decision settles a Request: a user's decision, or the request's expiry or cancellation.
type Decision struct {
	ID     string         `json:"id"` // of the Request
	Status DecisionStatus `json:"status"`
	// Allowed means that the call may run. It is also set on an expired approval if OnExpiry is Allow.
	Allowed bool `json:"allowed,omitempty"`
	// ArgumentsHash is the hash of the arguments that the user saw. The approval is valid for these arguments only.
	ArgumentsHash string    `json:"arguments_hash,omitempty"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	At            time.Time `json:"at"`
	// Response is the response to an elicitation. That of a plan which the user has changed has the changed plan as its
	// Content.
	Response *ElicitationResponse `json:"response,omitempty"`
	// Grant permits later calls of this tool in the session: with any arguments (GrantTool), to the same host (GrantHost)
	// or with the same arguments (GrantCall).
	Grant GrantScope `json:"grant,omitempty"`
}

// GrantScope is the scope of a grant.
type GrantScope string

// The scopes of grants.
const (
	GrantCall GrantScope = "call" // this tool with exactly these arguments
	GrantHost GrantScope = "host" // this tool with any URL of this host
	GrantTool GrantScope = "tool" // this tool
	// GrantNever appears only in MaxGrant: no grant can replace the approval, so each call needs its own.
	GrantNever GrantScope = "never"
)

// Grant is a session's permission for later calls of a tool that would otherwise need approval.
type Grant struct {
	Tool          string    `json:"tool"`
	ArgumentsHash string    `json:"arguments_hash,omitempty"` // or that of HostGrant; empty: any arguments
	By            string    `json:"by,omitempty"`
	At            time.Time `json:"at"`
}

// Covers reports whether the grant allows a call of this tool with these arguments, which have this hash. widest is
// that of Policy.Permit.
func (r Grant) Covers(tool, arguments, argumentsHash string, widest GrantScope) bool {
	switch {
	case r.Tool != tool:
		return false
	case r.ArgumentsHash == "":
		return widest == ""
	case r.ArgumentsHash == argumentsHash:
		return true
	}
	return widest == GrantHost && r.ArgumentsHash == HostGrant(arguments)
}

// MaxResponseBytes bounds the content of a response to an elicitation.
const MaxResponseBytes = 64 << 10

// Settle returns d as it settles the request, or an error if it does not. An approval is valid only for the arguments
// in the request; otherwise the error's code is tool_drift. The content of a response is not checked against its
// schema: only the tool host can do that.
func (w Request) Settle(d Decision) (Decision, *Error) {
	if err := w.checkStatus(d); err != nil {
		return d, err
	}
	if d.Status == StatusExpired && d.ArgumentsHash == "" {
		d.ArgumentsHash = w.ArgumentsHash // the decision was made without showing them
	}
	switch {
	case w.Kind == RequestApproval && d.Status == StatusAllowed && d.ArgumentsHash == "":
		return d, invalid("the approval does not name the arguments; give arguments_hash as the request has it")
	case (d.Allowed || d.ArgumentsHash != "") && d.ArgumentsHash != w.ArgumentsHash:
		return d, Errorf(CodeToolDrift, nil, "call "+w.ID+" has other arguments than the decision names; look at it again")
	case d.Grant == "":
	case d.Grant != GrantCall && d.Grant != GrantHost && d.Grant != GrantTool, d.Status != StatusAllowed:
		return d, invalid(`a grant is "call", "host" or "tool", and goes with allow`)
	case !w.Grants(d.Grant):
		return d, invalid("%s", w.WhyNoGrant())
	}
	return w.settleResponse(d)
}

// checkStatus refuses a status that does not fit the kind of request or contradicts d.Allowed.
func (w Request) checkStatus(d Decision) *Error {
	approval := w.Kind == RequestApproval
	fits, allowed := false, false
	switch d.Status {
	case StatusAllowed:
		fits, allowed = approval, true
	case StatusDenied:
		fits = approval || w.Kind == RequestElicitation
	case StatusAnswered:
		fits = !approval
	case StatusExpired:
		fits, allowed = true, d.Allowed && approval
	case StatusCancelled:
		fits = true
	}
	if !fits || d.Allowed != allowed {
		return invalid("status %q with allowed=%v does not settle a request of kind %q", d.Status, d.Allowed, w.Kind)
	}
	return nil
}

// settleResponse checks the decision's response. Only an answered elicitation has one: with the elicitation's key, and
// with content only if it accepts a form.
func (w Request) settleResponse(d Decision) (Decision, *Error) {
	switch {
	case w.Kind == RequestApproval && w.Tool == plan.Tool && d.Response != nil:
		return d, checkChangedPlan(d)
	case w.Kind != RequestElicitation && d.Response != nil:
		return d, invalid("%s is not an elicitation; answer it with text", w.ID)
	case w.Kind != RequestElicitation, d.Response == nil && d.Status != StatusAnswered:
		return d, nil
	case d.Response == nil:
		return d, invalid("%s asks for fields, not for a message; answer with response {action, content}",
			Truncate(w.Tool, 80))
	}
	response, err := d.Response.To(w.Elicitation)
	if err != nil {
		return d, err
	}
	d.Response = &response
	return d, nil
}

// checkChangedPlan returns an error if d does not allow the plan that it has.
func checkChangedPlan(d Decision) *Error {
	if d.Status != StatusAllowed || d.Response.Action != ElicitationAccept {
		return invalid("a changed plan goes with allow")
	}
	if _, err := plan.Parse(string(d.Response.Content)); err != nil {
		return invalid("the changed plan cannot be carried out: %v", err)
	}
	return nil
}

// To returns r as the response to q, or an error if it is none.
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

func invalid(format string, args ...any) *Error {
	return Errorf(CodeInputInvalid, nil, fmt.Sprintf(format, args...))
}
