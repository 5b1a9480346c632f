package turn

import "time"

// ServerState is the state of an MCP server as a worker sees it.
type ServerState string

// The states of a server.
const (
	ServerIdle       ServerState = "idle"       // not connected, because no caller needs it; no known failure
	ServerConnecting ServerState = "connecting" // starting, or listing its tools
	ServerConnected  ServerState = "connected"
	ServerFailing    ServerState = "failing" // in backoff until RetryAt, then tried once
)

// ServerHealth describes an MCP server as one worker has seen it since the worker started. It contains no secret.
type ServerHealth struct {
	Server  string      `json:"server"`
	State   ServerState `json:"state"`
	Since   time.Time   `json:"since"`             // when it entered this state
	RetryAt time.Time   `json:"retry_at,omitzero"` // of ServerFailing
	// LastError is the last failure, LastErrorAt its time. Both remain after the server has recovered.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// Stderr is the end of its last process's stderr, at most 1 KiB.
	Stderr      string `json:"stderr,omitempty"`
	Connections int    `json:"connections"` // open now
	// Processes are the latest starts and ends of its processes on this worker, oldest first.
	Processes []ProcessEvent `json:"processes,omitempty"`
	// Calls counts the calls admitted to the server, Failures those that got no answer. Restarts counts connections
	// that were in use and ended for a reason other than idleness.
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	Restarts int64 `json:"restarts"`
	// Drops counts connections that the worker dropped because the server exceeded a bound; Excess is the last such
	// bound.
	Drops  int64          `json:"drops,omitempty"`
	Excess *ExceededBound `json:"excess,omitempty"`
	// Tenants are the default tenant, whose name is empty, and every tenant whose state is not idle, by name. It is
	// empty if the default tenant is the only one.
	Tenants []TenantHealth `json:"tenants,omitempty"`
}

// Available reports whether the worker can read the server's catalogue. That takes the default tenant's connection, so
// the state of the default tenant counts if Tenants has it.
func (h ServerHealth) Available() bool {
	state := h.State
	for _, t := range h.Tenants {
		if t.Tenant == "" {
			state = t.State
		}
	}
	return state == ServerConnected || state == ServerIdle // an idle server is connected when it is needed
}

// TenantHealth describes a server's state for one tenant, which has its own connections and processes.
type TenantHealth struct {
	Tenant      string      `json:"tenant"`
	State       ServerState `json:"state"`
	Since       time.Time   `json:"since"`
	RetryAt     time.Time   `json:"retry_at,omitzero"` // of ServerFailing
	Problem     string      `json:"problem,omitempty"` // of ServerFailing
	Connections int         `json:"connections"`       // open now
}

// ProcessEvent is the start or the end of a server's process.
type ProcessEvent struct {
	At     time.Time `json:"at"`
	PID    int       `json:"pid"`
	Tenant string    `json:"tenant,omitempty"`
	// Ended says how the process ended, such as "exit status 1"; empty: it started.
	Ended string `json:"ended,omitempty"`
}

// ExceededBound is a bound that a server exceeded.
type ExceededBound struct {
	Bound string    `json:"bound"`
	Limit int64     `json:"limit"`           // in the bound's unit
	Burst int64     `json:"burst,omitempty"` // of a rate: how much may come at once
	At    time.Time `json:"at"`
}
