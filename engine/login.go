package engine

import "github.com/everturn/everturn/activities/mcp"

// Login gets access tokens for an MCP server by a method that the configuration cannot describe, such as the user's
// consent in a browser. Its method Token returns the token for the next request, and Renew is called after the server
// has rejected one.
type Login = mcp.Login

// WithLogin makes the engine use the tokens of a Login for a configured server. New fails if no server of this ID is
// configured, if it is not reached over http, or if it has client credentials.
func WithLogin(server string, l Login) Option {
	return func(o *options) {
		if o.logins == nil {
			o.logins = map[string]Login{}
		}
		o.logins[server] = l
	}
}
