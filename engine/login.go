package engine

import (
	"fmt"
	"slices"

	"github.com/everturn/everturn/activities/toolbox"
)

// Login gets access tokens for an MCP server in a way that no configuration describes, such as a person's consent in a
// browser.
type Login = toolbox.Login

// WithLogin has the configured server, which is reached over http, asked for with the tokens of a Login. New fails where no
// such server is configured, or where it has client credentials.
func WithLogin(server string, l Login) Option {
	return func(o *options) {
		if o.logins == nil {
			o.logins = map[string]Login{}
		}
		o.logins[server] = l
	}
}

// logIn gives each server its login.
func (o options) logIn(servers []toolbox.Server) ([]toolbox.Server, error) {
	for id, l := range o.logins {
		i := slices.IndexFunc(servers, func(s toolbox.Server) bool { return s.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("there is a login for MCP server %q, which is not configured: add it to mcp.servers", id)
		}
		servers[i].Login = l
	}
	return servers, nil
}
