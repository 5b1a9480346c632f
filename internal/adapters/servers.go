package adapters

import (
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// serverIdle is how long an unused connection to an MCP server stays open.
const serverIdle = 10 * time.Minute

// servers converts the configured MCP servers to the MCP host's type.
func servers(cfg config.Config) []mcp.Server {
	out := make([]mcp.Server, 0, len(cfg.MCP.Servers))
	for _, s := range cfg.MCP.Servers {
		tools := make(map[string]tool.Settings, len(s.Tools))
		for name, t := range s.Tools {
			tools[name] = tool.Settings{
				Repeatable: t.Repeatable, LocalActivity: t.LocalActivity, Risk: t.Risk, ReadOnly: t.ReadOnly,
				Timeout: t.Timeout, TotalTimeout: t.TotalTimeout, BackgroundTimeout: t.BackgroundTimeout,
			}
		}
		out = append(out, mcp.Server{
			ID: s.ID, Command: s.Command, Args: s.Args, Dir: s.Dir, User: s.User,
			Env: reveal(s.Env), EnvAllow: s.EnvAllow, URL: s.URL, Headers: reveal(s.Headers), Networks: s.Networks,
			OAuth: mcp.OAuth{
				TokenURL: s.OAuth.TokenURL, ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret.Reveal(),
				Scopes: s.OAuth.Scopes,
			},
			Required: s.Required, Allow: s.Allow, Deny: s.Deny, Tools: tools,
			Resources: slices.Contains(s.Offer, config.OfferResources), Prompts: slices.Contains(s.Offer, config.OfferPrompts),
			ConnectTimeout: s.Timeouts.Connect, CallTimeout: s.Timeouts.Call,
			IdleTimeout: serverIdle, MaxConcurrent: s.MaxConcurrentCalls,
			Trust: s.Trust, TrustChanges: s.AllowToolChanges, TaintsAll: cfg.Policy.Taint == turn.TaintStrict,
			SessionAffinity: s.SessionAffinity == config.AffinityTurn, ElicitationTimeout: s.Timeouts.Elicitation,
			Queue: cfg.ServerQueue(s.Queue),
		})
	}
	return out
}

// reveal returns secrets as strings, for the adapter that sends them.
func reveal(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for k, s := range secrets {
		out[k] = s.Reveal()
	}
	return out
}

// withLogins sets the logins, by server, on the servers that they are for, and returns the servers. It returns an error
// if a login is for a server that is not configured.
func withLogins(servers []mcp.Server, logins map[string]mcp.Login) ([]mcp.Server, error) {
	for id, l := range logins {
		i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is a login for MCP server %q, which is not configured: add it to mcp.servers", id)
		}
		servers[i].Login = l
	}
	return servers, nil
}
