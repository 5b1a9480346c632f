package turn

import (
	"encoding/json"
	"time"
)

// ActivityKind is the kind of activity that runs a call.
type ActivityKind string

// The kinds of attempt. An agent's call is a child workflow between two short activities. A regular call is an
// activity (6 history events). A local call is a local activity (1 event), and only repeatable tools that return
// within LocalActivityCap may use it. Of a client tool's call, one activity hands it out and another one records the
// result; the turn waits between them.
const (
	ActivityRegular ActivityKind = "regular"
	ActivityLocal   ActivityKind = "local"
	ActivityAgent   ActivityKind = "agent"
	ActivityClient  ActivityKind = "client"
)

// LocalActivityCap bounds a local call. A pending local activity holds the workflow task, and with it updates and
// cancellation.
const LocalActivityCap = time.Second

// Risk is the worst harm that a tool can do.
type Risk string

// The risks, in rising order.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
	// RiskNever as Policy.AskRisk means that risk alone never makes a call need an approval.
	RiskNever Risk = "never"
)

// Known reports whether r is a risk of this package.
func (r Risk) Known() bool { return r == RiskLow || r == RiskMedium || r == RiskHigh }

// Descriptor is everything known about a tool, from its server and from the operator's configuration.
type Descriptor struct {
	ID          string          `json:"id"`   // local/<name>, mcp/<server>/<tool> or client/<name>
	Wire        string          `json:"wire"` // the name for providers, ^[a-zA-Z0-9_-]{1,64}$, unique in the catalogue
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	// Details is the rest of the tool's description as JSON, for display: title, output schema and annotations. It is
	// empty if there is nothing else, or too much.
	Details json.RawMessage `json:"details,omitempty"`
	// Hash covers the name, description and schema, and for a server's tool the content of Details. If it changes after a
	// turn's config is frozen, the call ends with tool_drift.
	Hash     string       `json:"hash"`
	Activity ActivityKind `json:"activity"`
	Risk     Risk         `json:"risk"`
	// Repeatable means that running the call again does no harm, as the operator or the author of a local tool
	// declares.
	Repeatable bool `json:"repeatable,omitempty"`
	Effects
	Timeout time.Duration `json:"timeout,omitempty"` // 0: the turn's tool_timeout
	// TotalTimeout bounds a call whose progress renews Timeout. If it is 0 or less than Timeout, progress does not
	// renew Timeout.
	TotalTimeout time.Duration `json:"total_timeout,omitempty"`
	// ElicitationTimeout is how long a server of an older protocol may hold a call open for the responses to its
	// elicitations, in total. If it is 0, the server may not send elicitations.
	ElicitationTimeout time.Duration `json:"elicitation_timeout,omitempty"`
	// Queue is the task queue of the workers that host the tool's server. If it is empty, every worker that runs tools
	// does.
	Queue string `json:"queue,omitempty"`
	// Hosts is set for a tool that sends requests to the host of its argument url.
	Hosts *HostRule `json:"hosts,omitempty"`
	// Commands is set for a tool whose argument command is a command line.
	Commands *CommandRule `json:"commands,omitempty"`
}

// Effects describes what a call can do besides returning its result. The zero value assumes that the call may change
// or send anything.
type Effects struct {
	// ReadOnly means that a call changes nothing and sends nothing out.
	ReadOnly bool `json:"read_only,omitempty"`
	// Taints means that the result may contain text from untrusted sources. It taints the session: see Policy.Taint.
	Taints bool `json:"taints,omitempty"`
	// SessionAffinity means that the server keeps state between the calls of a turn, so they all go to one worker's
	// connection.
	SessionAffinity bool `json:"session_affinity,omitempty"`
	// AlwaysAsks means that each call needs an approval of its own, whatever the policy allows: its effect is beyond this
	// machine and cannot be taken back.
	AlwaysAsks bool `json:"always_asks,omitempty"`
}

// Tool is the part of a Descriptor that the workflow holds. The schema stays in the journal.
type Tool struct {
	ID         string       `json:"id"`
	Wire       string       `json:"wire"`
	Hash       string       `json:"hash"`
	Activity   ActivityKind `json:"activity"`
	Risk       Risk         `json:"risk"`
	Repeatable bool         `json:"repeatable,omitempty"`
	Effects
	Timeout            time.Duration `json:"timeout,omitempty"`
	TotalTimeout       time.Duration `json:"total_timeout,omitempty"`
	ElicitationTimeout time.Duration `json:"elicitation_timeout,omitempty"`
	Queue              string        `json:"queue,omitempty"`
	Hosts              *HostRule     `json:"hosts,omitempty"`
	Commands           *CommandRule  `json:"commands,omitempty"`
	Sensitive          []string      `json:"sensitive,omitempty"` // see the function Sensitive
}

// Pinned returns the fields of d that a turn config holds.
func (d Descriptor) Pinned() Tool {
	return Tool{
		ID: d.ID, Wire: d.Wire, Hash: d.Hash, Activity: d.Activity, Risk: d.Risk, Repeatable: d.Repeatable,
		Effects: d.Effects,
		Timeout: d.Timeout, TotalTimeout: d.TotalTimeout, ElicitationTimeout: d.ElicitationTimeout,
		Queue: d.Queue, Hosts: d.Hosts, Commands: d.Commands, Sensitive: Sensitive(d.Schema),
	}
}

// Catalogue is the set of tools of one server, as a worker published it.
type Catalogue struct {
	Server   string `json:"server"` // "local" or the MCP server's ID
	Hash     string `json:"hash"`   // of Tools; empty if the server was unavailable
	Required bool   `json:"required"`
	// Problem says why the server was unavailable, with the end of its stderr. It is empty if the server was available.
	Problem string       `json:"problem,omitempty"`
	Tools   []Descriptor `json:"tools,omitempty"`
	// Dropped are the tools that were left out, each with the reason.
	Dropped []string `json:"dropped,omitempty"`
	// Misnamed are the tools that the configuration names and the server does not offer.
	Misnamed []string `json:"misnamed,omitempty"`
	// AllowToolChanges means that the operator trusts the server to change its tools. If it is false, a tool that
	// changes is quarantined.
	AllowToolChanges bool `json:"allow_tool_changes,omitempty"`
	// ConfigHash is a hash of the operator's configuration of the server. If it changes, new tools are expected.
	ConfigHash string `json:"config_hash,omitempty"`
	// Quarantined are tools that are left out of Tools because the operator has not approved their current version.
	Quarantined []QuarantinedTool `json:"quarantined,omitempty"`
	// Since is when a server with a Problem became unavailable. Its last good Tools stay valid for Grace from then on.
	Since time.Time     `json:"since,omitzero"`
	Grace time.Duration `json:"grace,omitempty"`
}

// Usable reports whether turns may use the server's tools at the time now: the server is available, or it became
// unavailable less than Grace ago and its last good tools are known. In the latter case a call waits for the server.
func (c Catalogue) Usable(now time.Time) bool {
	return c.Problem == "" || len(c.Tools) > 0 && now.Before(c.Since.Add(c.Grace))
}

// Offers reports whether the catalogue has this version of a tool.
func (c Catalogue) Offers(t Tool) bool {
	for _, d := range c.Tools {
		if d.ID == t.ID && d.Hash == t.Hash {
			return true
		}
	}
	return false
}

// Offered returns the tools of the catalogue, except those that the policy denies whatever their arguments.
func (c Catalogue) Offered(policy Policy) (out []Descriptor) {
	for _, d := range c.Tools {
		if policy.Offered(d.Pinned()) {
			out = append(out, d)
		}
	}
	return out
}

// Version returns an identifier of this version of the server's catalogue. It differs if the operator's configuration
// or the tools differ.
func (c Catalogue) Version() string { return c.ConfigHash + "/" + c.Hash }

// QuarantinedTool is a tool that is new or differs from its approved version.
type QuarantinedTool struct {
	Now Descriptor `json:"now"`
	// Approved is the approved version, or nil if the tool is new.
	Approved *Descriptor `json:"approved,omitempty"`
}
