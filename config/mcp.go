package config

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// MCP holds the MCP servers.
type MCP struct {
	// Tool servers that speak the Model Context Protocol (MCP), one block each.
	Servers []MCPServer `toml:"servers"`
}

// MCPServer configures one server that speaks the Model Context Protocol.
type MCPServer struct {
	// Names the server in tool IDs, mcp/<id>/<tool>: a-z, 0-9, _ and -.
	ID string `toml:"id" example:"files"`
	// The program of a server over stdio, found on PATH. A server has a command or a url.
	Command string `toml:"command" example:"npx"`
	// Its arguments.
	Args []string `toml:"args" example:"-y,@modelcontextprotocol/server-filesystem,."`
	// Its working directory; empty means the worker's.
	Dir string `toml:"dir"`
	// The account that it runs as, without supplementary groups; empty means the worker's. It needs a worker that runs
	// as root.
	User string `toml:"user"`
	// Variables that are set for the server. `everturn trust` shows their values: refer to secrets as "${MY_TOKEN}".
	Env map[string]Secret `toml:"env" shown:"written" example:"LOG_LEVEL = warn"`
	// Variables of the worker's environment that the server inherits. It inherits nothing else.
	EnvAllow []string `toml:"env_allow" example:"PATH,HOME"`
	// The address of a server over streamable HTTP, or over SSE, its predecessor, if the path ends in /sse.
	URL string `toml:"url"`
	// HTTP headers, for a server with a url.
	Headers map[string]Secret `toml:"headers"`
	// Private networks that url may resolve to, such as "10.0.0.0/8". Loopback is allowed if url itself names it.
	Networks []string `toml:"networks"`
	// A bearer token by OAuth 2 client credentials (RFC 6749, section 4.4), for a server with a url.
	OAuth OAuth `toml:"oauth"`
	// Turns do not start while this server is unavailable. Otherwise they start, and the model is told.
	Required bool `toml:"required"`
	// Maximum number of calls in flight to the server, per worker.
	MaxConcurrentCalls int `toml:"max_concurrent_calls" default:"64" min:"1"`
	// Patterns of its tools that are offered; empty means all.
	Allow []string `toml:"allow" example:"*"`
	// Patterns of its tools that are not offered.
	Deny []string `toml:"deny" example:"write_*"`
	// Trust the server: its annotations (read-only, idempotent) apply to what the settings of a tool leave out, and its
	// text does not taint a session (see policy.taint).
	Trust bool `toml:"trust"`
	// Accept changes of the server's tools. Otherwise a changed tool is quarantined: see "tools diff" and "tools
	// approve".
	AllowToolChanges bool `toml:"allow_tool_changes"`
	// "turn": the server keeps state between the calls of a turn, so all go to one connection. Empty: any worker may
	// call it.
	SessionAffinity SessionAffinity `toml:"session_affinity" enum:",turn"`
	// What the model is offered of the server besides its tools, as tools that list and read it: "resources", "prompts".
	Offer []Offer `toml:"offer" enum:"resources,prompts" example:"resources"`
	// A task queue of its own, for a server that only some workers host: those with this name in worker.roles.
	// Empty: every worker with the role "tools" hosts it.
	Queue string `toml:"queue" maxbytes:"64"`
	// The timeouts of connections and calls.
	Timeouts MCPTimeouts `toml:"timeouts"`
	// Settings of a single tool, by the server's name for it.
	Tools map[string]MCPTool `toml:"tools" example:"list_directory"`
}

// MCPTimeouts are the timeouts of a server's connections and calls.
type MCPTimeouts struct {
	// Timeout of starting, connecting and listing the tools together.
	Connect time.Duration `toml:"connect" default:"1m" min:"1ms"`
	// Timeout of a call; "0s" means runtime.tool_timeout.
	Call time.Duration `toml:"call" min:"0s"`
	// How long a server of an older protocol version may hold a call for the responses to its elicitations, in total;
	// "0s" means that it cannot elicit. Servers of the newest protocol version send elicitations without holding a call.
	Elicitation time.Duration `toml:"elicitation" min:"1s" max:"24h" zero:"to allow no elicitation"`
}

// OAuth configures a client-credentials grant.
type OAuth struct {
	// The endpoint that issues tokens.
	TokenURL string `toml:"token_url"`
	// The OAuth client's ID.
	ClientID string `toml:"client_id"`
	// The OAuth client's secret.
	ClientSecret Secret `toml:"client_secret"`
	// The scopes to request.
	Scopes []string `toml:"scopes"`
}

// SessionAffinity is how long a server keeps state between calls.
type SessionAffinity string

// AffinityTurn means that the state lasts for a turn.
const AffinityTurn SessionAffinity = "turn"

// Offer is what a server may offer besides tools.
type Offer string

// The values of Offer.
const (
	OfferResources Offer = "resources"
	OfferPrompts   Offer = "prompts"
)

// MCPTool holds the operator's settings of one tool.
type MCPTool struct {
	// Running a call again does no harm.
	Repeatable bool `toml:"repeatable" example:"true"`
	// The tool answers within a second and runs as a local activity, which takes fewer events. It needs repeatable, and a
	// server that every worker of turns hosts.
	LocalActivity bool `toml:"local_activity" example:"true"`
	// How much harm a call can do: "low", "medium" or "high". Without it, a trusted server's annotations decide.
	// Otherwise it is "high" if the server marks the tool as destructive or its name or description suggests it (delete,
	// shell, ...), else "medium".
	Risk turn.Risk `toml:"risk" enum:",low,medium,high" example:"low"`
	// Timeout of a call; "0s" means the server's timeouts.call.
	Timeout time.Duration `toml:"timeout" min:"0s" example:"5s"`
	// Timeout of a call in total. Until then, progress that the server reports restarts the timeout; "0s" means that it
	// does not.
	TotalTimeout time.Duration `toml:"total_timeout" min:"0s"`
	// How long a call may continue after its timeout. The model gets the result when the call finishes.
	BackgroundTimeout time.Duration `toml:"background_timeout" min:"1s" max:"24h" zero:"to end calls at their timeout"`
	// A call changes nothing and sends nothing out. See policy.taint.
	ReadOnly bool `toml:"read_only"`
}
