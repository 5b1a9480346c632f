package config

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// MCP holds the MCP servers.
type MCP struct {
	Servers []MCPServer `toml:"servers"`
}

// MCPServer configures one server that speaks the Model Context Protocol.
type MCPServer struct {
	// ID names the server in tool IDs: mcp/<id>/<tool>.
	ID string `toml:"id"`
	// Transport is stdio (the worker starts Command as a child process), http (streamable HTTP at URL) or sse (its
	// predecessor).
	Transport Transport `toml:"transport" enum:"stdio,http,sse"`
	// Command and Args start the server. Dir is its working directory; empty means the worker's.
	Command string   `toml:"command"`
	Args    []string `toml:"args"`
	Dir     string   `toml:"dir"`
	// User is the account, by name or number, that the server's process runs as; empty means the worker's. It needs a
	// worker that runs as root.
	User string `toml:"user"`
	// Env is set for the server in addition to the variables that EnvAllow lets through. The server inherits nothing
	// else.
	Env      map[string]Secret `toml:"env"`
	EnvAllow []string          `toml:"env_allow"`
	// URL and Headers are for the transports http and sse.
	URL     string            `toml:"url"`
	Headers map[string]Secret `toml:"headers"`
	// Networks are the private networks (10.0.0.0/8) that URL may resolve to. Loopback is allowed if URL itself names
	// it.
	Networks []string `toml:"networks"`
	// OAuth gets a token with client credentials, for http and sse.
	OAuth OAuth `toml:"oauth"`
	// Required makes a turn refuse to start while the server is unreachable. Otherwise the turn starts and tells the
	// model.
	Required bool `toml:"required"`
	// ConnectTimeout bounds starting, connecting and listing the tools together.
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms"`
	// CallTimeout bounds a call; 0 means runtime.tool_timeout. Progress that the server reports restarts it, up to
	// TotalTimeout in all; if TotalTimeout is 0, progress does not restart it.
	CallTimeout  time.Duration `toml:"call_timeout" min:"0s"`
	TotalTimeout time.Duration `toml:"total_timeout" min:"0s"`
	// IdleTimeout closes a connection after this time without use; 0 keeps it open.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"0s"`
	// CatalogueGrace is how long turns may still begin with the tools of a server that has become unavailable: their
	// calls wait for it. 0 means 1 minute, and 10 minutes if the server is required.
	CatalogueGrace time.Duration `toml:"catalogue_grace" min:"0s"`
	// MaxConcurrentCalls is the maximum number of calls in flight to the server, per worker.
	MaxConcurrentCalls int `toml:"max_concurrent_calls" min:"1"`
	// Allow and Deny are patterns of the server's own tool names. An empty Allow means all tools; Deny wins.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	// Trust accepts the server's annotations (read-only, idempotent) for what Tools leaves unset.
	Trust bool `toml:"trust"`
	// AllowToolChanges accepts changes of the server's tools. Otherwise a tool that changes is quarantined until the
	// operator approves it.
	AllowToolChanges bool `toml:"allow_tool_changes"`
	// SessionAffinity is "turn" if the server keeps state between a turn's calls, so that all of them go to one
	// connection of one worker.
	SessionAffinity SessionAffinity `toml:"session_affinity" enum:",turn"`
	// ElicitationTimeout lets a server of an older protocol version send elicitations in the middle of a call, and
	// bounds how long the call is held for each response; 0 does not allow it. Servers of the newest protocol version
	// send elicitations without holding a call.
	ElicitationTimeout time.Duration `toml:"elicitation_timeout" min:"0s"`
	// Resources and Prompts offer the server's resources and prompts to the model, as tools that list and read them.
	Resources bool `toml:"resources"`
	Prompts   bool `toml:"prompts"`
	// Everywhere declares that every worker hosts this server.
	OnAllWorkers bool `toml:"on_all_workers"`
	// Tools are the operator's settings of single tools, by the server's own name of the tool.
	Tools map[string]MCPTool `toml:"tools"`
}

// OAuth configures a client-credentials grant (RFC 6749, section 4.4).
type OAuth struct {
	TokenURL     string   `toml:"token_url"`
	ClientID     string   `toml:"client_id"`
	ClientSecret Secret   `toml:"client_secret"`
	Scopes       []string `toml:"scopes"`
}

// SessionAffinity is how long a server keeps state between calls.
type SessionAffinity string

// AffinityTurn means that the state lasts for a turn.
const AffinityTurn SessionAffinity = "turn"

// Transport is the transport to an MCP server.
type Transport string

// The transports.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
)

// MCPTool holds the operator's settings of one tool.
type MCPTool struct {
	// Repeatable means that running a call again does no harm.
	Repeatable bool `toml:"repeatable"`
	// Quick means that the tool answers within a second and may run as a local activity. It needs Repeatable, and
	// Everywhere of the server.
	LocalActivity bool `toml:"local_activity"`
	// Risk is how much harm the tool can do. If empty, it follows the annotations of a trusted server; else it is high
	// if the server marks the tool as destructive or the tool's name or description suggests it (delete, shell, …), and
	// medium otherwise.
	Risk turn.Risk `toml:"risk" enum:",low,medium,high"`
	// Timeout bounds a call; 0 means the server's call_timeout. TotalTimeout is like the server's.
	Timeout      time.Duration `toml:"timeout" min:"0s"`
	TotalTimeout time.Duration `toml:"total_timeout" min:"0s"`
	// Detach is how long a call may continue after its timeout. The model is told that its outcome is unknown, and gets
	// the result when the call finishes.
	BackgroundTimeout time.Duration `toml:"background_timeout" min:"0s"`
	// Contained means that a call only reads, and only locally: it changes nothing and sends nothing out. See
	// policy.taint.
	ReadOnly bool `toml:"read_only"`
}
