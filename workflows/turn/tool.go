package turn

import (
	"encoding/json"
	"time"
)

// ActivityKind is how a call is dispatched.
type ActivityKind string

// The lanes. A regular call is an activity of its own (6 history events); a quick one is a local activity (1 event)
// and is open only to tools that may be repeated and answer within LocalActivityCap.
const (
	ActivityRegular ActivityKind = "regular"
	ActivityLocal   ActivityKind = "quick"
)

// LocalActivityCap bounds a quick call: a pending local activity holds the workflow task, and with it updates and cancels.
const LocalActivityCap = time.Second

// Risk is what a tool may do at worst.
type Risk string

// The risks, in rising order.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Known reports whether r is a risk of this package.
func (r Risk) Known() bool { return r == RiskLow || r == RiskMedium || r == RiskHigh }

// Descriptor is a tool with all that is known of it: what its server says, and what the operator says of it.
type Descriptor struct {
	ID          string          `json:"id"`   // local/<name> or mcp/<server>/<tool>
	Wire        string          `json:"wire"` // the name that providers accept, ^[a-zA-Z0-9_-]{1,64}$, unique in the catalogue
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	// Also is what else its server says of it, as JSON and for people: title, output schema and annotations. Empty where it
	// says nothing else, or too much.
	Also json.RawMessage `json:"also,omitempty"`
	// Hash covers name, description, schema and what Also has; a change of it after pinning is drift.
	Hash     string       `json:"hash"`
	Activity ActivityKind `json:"lane"`
	Risk     Risk         `json:"risk"`
	// Repeatable: running the call again does no harm, by the word of the operator or of a local tool's author.
	Repeatable bool `json:"repeatable,omitempty"`
	Effects
	Timeout time.Duration `json:"timeout,omitempty"` // 0: the turn's tool_timeout
	// TotalTimeout bounds a call whose progress renews Timeout; 0, or less than Timeout: progress renews nothing.
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	// Hold is how much longer a call may take while its server holds it and asks somebody; it is no working time of the turn.
	// 0: it may not hold calls.
	Hold time.Duration `json:"hold,omitempty"`
}

// Effects is what a call can do beyond giving its result. The zero value is the careful one for what a call may do.
type Effects struct {
	// Contained: a call only reads, and only here. It changes nothing, and sends nothing to anybody outside.
	ReadOnly bool `json:"contained,omitempty"`
	// Taints: the result may be anybody's words. It marks the session: see Policy.Taint.
	Taints bool `json:"taints,omitempty"`
	// Stateful: the server remembers between the calls of a turn, which therefore go to one worker's connection.
	Stateful bool `json:"stateful,omitempty"`
}

// Tool is the part of a Descriptor that the workflow holds. Its schema stays in the journal.
type Tool struct {
	ID         string       `json:"id"`
	Wire       string       `json:"wire"`
	Hash       string       `json:"hash"`
	Activity   ActivityKind `json:"lane"`
	Risk       Risk         `json:"risk"`
	Repeatable bool         `json:"repeatable,omitempty"`
	Effects
	Timeout      time.Duration `json:"timeout,omitempty"`
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	Hold         time.Duration `json:"hold,omitempty"`
}

// Longest is how long one call may take, with all the progress that it makes and all that it is held for.
func (t Tool) Longest() time.Duration { return max(t.Timeout, t.TotalTimeout) + t.Hold }

// Pinned returns the part of d that a turn pins.
func (d Descriptor) Pinned() Tool {
	return Tool{
		ID: d.ID, Wire: d.Wire, Hash: d.Hash, Activity: d.Activity, Risk: d.Risk, Repeatable: d.Repeatable, Effects: d.Effects,
		Timeout: d.Timeout, TotalTimeout: d.TotalTimeout, Hold: d.Hold,
	}
}

// Catalogue is what one server offers, as a worker published it.
type Catalogue struct {
	Server   string `json:"server"` // "local" or the MCP server's ID
	Hash     string `json:"hash"`   // of Tools; empty where the server could not be asked
	Required bool   `json:"required"`
	// Problem says why the server could not be asked, with the tail of its stderr. Empty means that it could.
	Problem string       `json:"problem,omitempty"`
	Tools   []Descriptor `json:"tools,omitempty"`
	// Dropped are the tools that were left out, each with the reason.
	Dropped []string `json:"dropped,omitempty"`
	// Misnamed are the tools of which the configuration says something, and which the server does not offer.
	Misnamed []string `json:"misnamed,omitempty"`
	// AllowToolChanges: the operator trusts the server to change its tools. Where it is false, a tool that changes is held back.
	AllowToolChanges bool `json:"may_change,omitempty"`
	// Setup is a hash of what the operator has configured for the server. With another one new tools are expected.
	ConfigHash string `json:"setup,omitempty"`
	// Held are tools that were left out of Tools because nobody has accepted them as they are now.
	Quarantined []QuarantinedTool `json:"held,omitempty"`
	// Since is when a server with a Problem became unavailable. Its last good Tools stay valid for Grace from then on.
	Since time.Time     `json:"since,omitzero"`
	Grace time.Duration `json:"grace,omitempty"`
}

// Usable reports whether turns may have the server's tools: it can be asked, or became unavailable less than Grace ago. A
// call of a tool then waits for its server.
func (c Catalogue) Usable(now time.Time) bool {
	return c.Problem == "" || len(c.Tools) > 0 && now.Before(c.Since.Add(c.Grace))
}

// QuarantinedTool is a tool that is not what was accepted.
type QuarantinedTool struct {
	Now Descriptor `json:"now"`
	// Accepted is what was accepted; nil where the tool is new.
	Approved *Descriptor `json:"accepted,omitempty"`
}
