package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
)

// Role is a part of the work that a worker does.
type Role string

// The roles of workers.
const (
	RoleTurns     Role = "turns"
	RoleInference Role = "inference"
	RoleTools     Role = "tools"
)

// ServerQueues returns the roles that are queues of MCP servers.
func (w Worker) ServerQueues() (queues []string) {
	for _, r := range w.Roles {
		if !slices.Contains(ownRoles, r) {
			queues = append(queues, string(r))
		}
	}
	return queues
}

// ownRoles are the roles that no queue of a server can have as its name.
var ownRoles = []Role{RoleTurns, RoleInference, RoleTools}

// Has reports whether the worker has a role.
func (w Worker) Has(r Role) bool { return slices.Contains(w.Roles, r) }

// Hosts reports whether the worker connects to a server.
func (w Worker) Hosts(s MCPServer) bool {
	if s.Queue == "" {
		return w.Has(RoleTools)
	}
	return w.Has(Role(s.Queue))
}

// HealthListen returns the address to serve health on: on this machine only, if health_address has no host.
func (w Worker) HealthListen() string {
	if host, port, err := net.SplitHostPort(w.HealthAddress); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return w.HealthAddress
}

// Queue returns the task queue of a role. Inferences have one task queue for each provider endpoint, because a
// provider's limits apply to all requests that it gets.
func (c Config) Queue(r Role) string {
	switch r {
	case RoleInference:
		return c.Temporal.TaskQueue + "-inference-" + c.endpoint()
	case RoleTools:
		return c.Temporal.TaskQueue + "-tools"
	}
	return c.Temporal.TaskQueue
}

// ServerQueue returns the task queue for calls to the MCP servers whose key queue is name; "" if name is empty.
func (c Config) ServerQueue(name string) string {
	if name == "" {
		return ""
	}
	return c.Queue(RoleTools) + "-" + name
}

// queueName matches valid names of server queues, which become part of the names of task queues.
var queueName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// worker checks [worker], also against the MCP servers and the provider.
func (v *validator) worker(c Config) {
	w := c.Worker
	if len(w.Roles) == 0 {
		v.add("worker.roles", `is empty, so this worker would do nothing; name at least one of turns, inference and tools`)
	}
	for i, r := range w.Roles {
		hosts := slices.ContainsFunc(c.MCP.Servers, func(s MCPServer) bool { return s.Queue == string(r) })
		if !hosts && !slices.Contains(ownRoles, r) {
			v.add(fmt.Sprintf("worker.roles[%d]", i), "is %s; it must be turns, inference, tools, or the queue of a server in "+
				"[[mcp.servers]]", quote(string(r)))
		}
	}
	if _, port, err := net.SplitHostPort(w.HealthAddress); w.HealthAddress != "" && (err != nil || port == "") {
		v.add("worker.health_address", "is not host:port; write for instance :8081")
	}
	if strings.ContainsAny(w.Deployment, ".:") {
		v.add("worker.deployment", `is %q; Temporal forbids "." and ":" in this name`, w.Deployment)
	}
	if w.Has(RoleTurns) && !w.Has(RoleInference) && !c.ProviderKnown() {
		v.add("worker.roles", `leaves out "inference", so this worker has no API key that tells which provider "auto" `+
			`means; set llm.provider to that of the workers with the role inference`)
	}
}
