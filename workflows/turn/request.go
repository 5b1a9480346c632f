package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// Approvals bounds how long a turn waits for decisions. Zero means no bound.
type Approvals struct {
	// How long an approval request or a question of the model stays open; "0s" means without limit. An approval request
	// that expires is denied.
	Expiry time.Duration `json:"approval_expiry,omitempty" toml:"expiry" default:"168h" min:"1s" zero:"to wait without limit"`
}

// RequestKind is the kind of a Request.
type RequestKind string

// The kinds of requests.
const (
	RequestApproval    RequestKind = "approval"
	RequestQuestion    RequestKind = "question"
	RequestElicitation RequestKind = "elicitation" // from a tool's server, in the middle of a call
	RequestResult      RequestKind = "result"      // for a client that runs the call of a client tool
)

// RequestKinds returns all kinds of requests.
func RequestKinds() []RequestKind {
	return []RequestKind{RequestApproval, RequestQuestion, RequestElicitation, RequestResult}
}

// Request is an approval, a question, an elicitation or the result of a client tool's call that a turn waits for, and
// its decision. It is also the data of the events approval_requested, approval_decided, question_asked and
// question_answered, which lack Session, Turn and AskedAt.
type Request struct {
	// Session and Turn are set in the journal's records and where a request goes to an activity.
	Session string `json:"session,omitempty"`
	Turn    string `json:"turn,omitempty"`
	// ID is unique in its turn: the call's ID ("3.0") for an approval, "q<step>" for a question, "e<call>.<n>" for an
	// elicitation, with n counting from 1, and "r<call>" for a result.
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	Step int         `json:"step"`
	// The fields of an approval: the call, its arguments, and the reason for the request; a result has the first three.
	// Arguments are those that would run, byte for byte: whole in the journal's records, unless it has lost them, and otherwise the beginning of long
	// ones, up to WaitArguments bytes in an event and ArgumentsPreview bytes in the workflow.
	Tool          string `json:"tool,omitempty"`
	Arguments     string `json:"arguments,omitempty"`
	ArgumentsHash string `json:"arguments_hash,omitempty"`
	Risk          Risk   `json:"risk,omitempty"`
	Why           string `json:"why,omitempty"`
	// MaxGrant is the widest grant that would make this request unnecessary. Empty means GrantTool.
	MaxGrant GrantScope `json:"max_grant,omitempty"`
	Beside   *Beside    `json:"beside,omitempty"` // nil if there are none
	// Question is a preview; the transcript has the whole text.
	Question string `json:"question,omitempty"`
	// Elicitation is the complete elicitation, and Call is the call that an elicitation or a result belongs to.
	Elicitation *Elicitation `json:"elicitation,omitempty"`
	Call        string       `json:"call,omitempty"`
	ExpiresAt   time.Time    `json:"expires_at,omitzero"`
	// ArgumentsBytes is the size of the whole arguments. The journal sets it, and AskedAt and Decision, which is nil while
	// the request is open.
	ArgumentsBytes int64     `json:"arguments_bytes,omitempty"`
	AskedAt        time.Time `json:"asked_at,omitzero"`
	Decision       *Decision `json:"decision,omitempty"`
}

// Beside are the calls that run together with the call of an approval although no user decides about them: calls of the
// same step that need no approval and may change or send something, so perhaps also what the other call acts on.
type Beside struct {
	Count int `json:"count"`
	// Calls are the first MaxBeside of them. Their arguments are previews of at most BesideArguments bytes, and empty in
	// the workflow.
	Calls []ToolCall `json:"calls"`
}

// Grants reports whether a grant of scope s would make the request unnecessary.
func (r Request) Grants(s GrantScope) bool {
	switch r.MaxGrant {
	case "":
		return s == GrantCall || s == GrantTool
	case GrantHost, GrantCommand:
		return s == GrantCall || s == r.MaxGrant
	}
	return r.MaxGrant == s // GrantCall, or never for GrantNever
}

// Covers reports whether a grant of scope s, given with the approval r, also makes the approval other of the same
// turn unnecessary. It covers only calls of the same tool with the same risk.
func (r Request) Covers(s GrantScope, other Request) bool {
	similar := other.Kind == RequestApproval && r.ID != other.ID && r.Tool == other.Tool && r.Risk == other.Risk
	if s == "" || !similar || !r.Grants(s) || !other.Grants(s) {
		return false
	}
	host := HostOf(r.Arguments)
	sameHost := host != "" && host == HostOf(other.Arguments)
	return s == GrantTool || r.ArgumentsHash == other.ArgumentsHash || s == GrantHost && sameHost ||
		s == GrantCommand && coversCommands(r.Arguments, other.Arguments)
}

// coversCommands reports whether all commands of the arguments other are among those of arguments.
func coversCommands(arguments, other string) bool {
	granted, wanted := CommandPrefixes(arguments), CommandPrefixes(other)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(c string) bool { return !slices.Contains(granted, c) })
}

// WhyNoGrant returns the message for a user whose grant Grants refused: why the request does not accept the scope,
// and which scopes it accepts.
func (r Request) WhyNoGrant() string {
	switch r.MaxGrant {
	case "":
		return fmt.Sprintf("call %s is not remembered for a host: allow it for exactly these arguments (grant %q), or for "+
			"the whole tool (grant %q)", r.ID, GrantCall, GrantTool)
	case GrantHost:
		return fmt.Sprintf("call %s cannot be remembered for the whole tool: it needs an approval because of its host; "+
			"allow it once, for its host (grant %q), or for exactly these arguments (grant %q)", r.ID, GrantHost, GrantCall)
	case GrantCommand:
		return fmt.Sprintf("call %s cannot be remembered for the whole tool: it runs a command line; allow it once, for its "+
			"commands (grant %q), or for exactly these arguments (grant %q)", r.ID, GrantCommand, GrantCall)
	case GrantCall:
		return fmt.Sprintf(
			"call %s cannot be remembered for the whole tool: it needs an approval because of its arguments or "+
				"of the conversation's text; allow it once, or for exactly these arguments (grant %q)", r.ID, GrantCall)
	}
	return fmt.Sprintf("call %s cannot be remembered: policy requires approval of every call; allow it once", r.ID)
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

// checkChangedPlan returns an error unless d allows the call and its response contains a valid plan.
func checkChangedPlan(d Decision) *Error {
	if d.Status != StatusAllowed || d.Response.Action != ElicitationAccept {
		return invalid("a changed plan goes with allow")
	}
	if err := CheckJSON(string(d.Response.Content)); err != nil {
		return invalid("the changed plan cannot be carried out: %v", err)
	}
	if _, err := plan.Parse(string(d.Response.Content)); err != nil {
		return invalid("the changed plan cannot be carried out: %v", err)
	}
	return nil
}
