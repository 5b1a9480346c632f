package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/loopback"
)

var (
	// serverID matches valid server IDs, which become part of tool IDs.
	serverID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	// variableName matches valid names of environment variables.
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// servers checks [[mcp.servers]].
func (v *validator) servers(servers []MCPServer) {
	first := map[string]int{} // by ID: the index of the first server that has it
	for i, s := range servers {
		if len(v.problems) >= maxProblems {
			return
		}
		key := fmt.Sprintf("mcp.servers[%d]", i)
		v.serverID(key+".id", s.ID)
		if j, seen := first[s.ID]; seen && s.ID != "" {
			v.add(key+".id", "is %q, like that of mcp.servers[%d]; give every server its own ID", s.ID, j)
		} else {
			first[s.ID] = i
		}
		v.transport(key, s)
		v.networks(key+".networks", s.Networks)
		v.oauth(key+".oauth", s)
		v.environment(key, s)
		v.toolNames(key+".allow", s.Allow)
		v.toolNames(key+".deny", s.Deny)
		if s.Queue != "" && !queueName.MatchString(s.Queue) {
			v.add(key+".queue", "must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit")
		} else if slices.Contains(ownRoles, Role(s.Queue)) {
			v.add(key+".queue", "is %q, which is a role of its own in worker.roles; choose another name", s.Queue)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			v.tool(join(key+".tools", name), s, s.Tools[name])
		}
	}
}

// serverID checks the ID of an MCP server. "local" is reserved, because it names the built-in tools in tool IDs.
func (v *validator) serverID(key, id string) {
	switch {
	case id == "":
		v.add(key, `is missing; name the server, for instance id = "files"`)
	case id == "local":
		v.add(key, `is "local", which names the built-in tools; choose another ID`)
	case !serverID.MatchString(id):
		v.add(key, "is %s; it must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit", quote(id))
	}
}

// transport checks that a server has a command or a URL, and only settings that fit it. key is the
// configuration key of the server.
func (v *validator) transport(key string, s MCPServer) {
	hasProcess := s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || len(s.EnvAllow) > 0 || s.Dir != "" ||
		s.User != ""
	hasURL := s.URL != "" || len(s.Headers) > 0 || len(s.Networks) > 0 || s.OAuth.configured()
	switch {
	case s.Command != "" && s.URL != "":
		v.add(key, "sets command and url; a server has one of them")
	case s.URL != "" && hasProcess:
		v.add(key, "has a url; remove args, env, env_allow, dir and user, which are for a server with a command")
	case s.URL == "" && hasURL:
		v.add(key, "sets headers, networks or oauth, which need a url; set it, or remove them (pass secrets to a server "+
			"with a command in env)")
	case s.URL == "" && s.Command == "":
		v.add(key+".command", "is missing; name the server's program, or set url")
	}
	v.remote(key+".url", s.URL, s.Networks)
}

// remote checks the URL of a server or of a token endpoint; "" means that there is none. It rejects unencrypted http to
// another machine unless networks lists private networks. Whether the host is in one of these is checked when the
// worker connects: see netguard.
func (v *validator) remote(key, raw string, networks []string) {
	v.address(key, raw)
	u, err := url.Parse(raw)
	if err == nil && u.Scheme == "http" && u.Host != "" && !loopback.Host(u.Hostname()) && len(networks) == 0 {
		v.add(key, `is unencrypted http to another machine; use https, or list its private network: `+
			`networks = ["10.0.0.0/8"]`)
	}
}

// networks checks CIDR prefixes. They must not include loopback addresses: a server on this machine is reached only if
// its URL names this machine.
func (v *validator) networks(key string, list []string) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		p, err := netip.ParsePrefix(raw)
		switch {
		case err != nil:
			v.add(at, `is %s; it must be a network such as "10.0.0.0/8" or "fd00::/8"`, quote(raw))
		case p.Masked() != p:
			v.add(at, "is %s, whose address is longer than its prefix; write %q", quote(raw), p.Masked())
		case p.Bits() == 0:
			v.add(at, "is %s, which includes every address; list the private network only", quote(raw))
		case p.Overlaps(netip.MustParsePrefix("127.0.0.0/8")), p.Contains(netip.IPv6Loopback()):
			v.add(at, "is %s, which includes this machine; for a server on it, write localhost in url", quote(raw))
		}
	}
}

// configured reports whether o has any setting.
func (o OAuth) configured() bool {
	return o.TokenURL != "" || o.ClientID != "" || o.ClientSecret != "" || len(o.Scopes) > 0
}

// oauth checks the OAuth settings of a server, if there are any.
func (v *validator) oauth(key string, s MCPServer) {
	o := s.OAuth
	if !o.configured() {
		return
	}
	if o.TokenURL == "" {
		v.add(key+".token_url", "is missing; set the endpoint that issues the token")
	}
	if o.ClientID == "" {
		v.add(key+".client_id", "is missing; set the ID of the OAuth client")
	}
	v.remote(key+".token_url", o.TokenURL, s.Networks)
	for name := range s.Headers {
		if strings.EqualFold(name, "Authorization") {
			v.add(key, "conflicts with headers.%s, which authenticates too; remove one of them", name)
		}
	}
}

// environment checks the names of the environment variables that a server gets.
func (v *validator) environment(key string, s MCPServer) {
	for i, name := range s.EnvAllow {
		if !variableName.MatchString(name) {
			v.add(fmt.Sprintf("%s.env_allow[%d]", key, i), "is %s; it must be the name of a variable", quote(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !variableName.MatchString(name) {
			v.add(join(key+".env", name), "is not a valid name of a variable")
		}
	}
}

// toolNames checks patterns of a server's own tool names.
func (v *validator) toolNames(key string, patterns []string) {
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			v.add(fmt.Sprintf("%s[%d]", key, i), "is %s, which is not a valid pattern of tool names", quote(p))
		}
	}
}

// tool checks t, the settings of one tool of the server s. key is their configuration key.
func (v *validator) tool(key string, s MCPServer, t MCPTool) {
	timeout, timeoutName := t.Timeout, "timeout"
	if timeout == 0 {
		timeout, timeoutName = s.Timeouts.Call, "the server's timeouts.call"
	}
	v.total(key+".total_timeout", t.TotalTimeout, timeout, timeoutName)
	const runsWithTurn = "a local activity runs on whichever worker runs the turn"
	switch {
	case !t.LocalActivity:
	case !t.Repeatable:
		v.add(key+".local_activity",
			"needs repeatable = true: a local activity may run twice after a crash; set both, or neither")
	case t.BackgroundTimeout > 0:
		v.add(key+".background_timeout",
			"conflicts with local_activity = true: a local activity ends within a second; remove one of them")
	case s.SessionAffinity == AffinityTurn:
		v.add(key+".local_activity", `conflicts with session_affinity = "turn": %s; remove one of them`, runsWithTurn)
	case s.Queue != "":
		v.add(key+".local_activity", "conflicts with queue of the server: %s; remove one of them", runsWithTurn)
	}
}

// total rejects a total timeout of calls that is shorter than their timeout, which progress restarts. timeoutName names
// the setting of that timeout. A total of 0 means that there is none.
func (v *validator) total(key string, total, timeout time.Duration, timeoutName string) {
	if total > 0 && total < timeout {
		v.add(key, "is %s, shorter than %s, which is %s; raise it, or leave it out", total, timeoutName, timeout)
	}
}
