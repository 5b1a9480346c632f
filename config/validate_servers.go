package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/loopback"
)

// serverID matches valid server IDs, which become part of tool IDs.
var serverID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// variableName matches valid names of environment variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) servers(servers []MCPServer) {
	first := map[string]int{}
	for i, s := range servers {
		key := fmt.Sprintf("mcp.servers[%d]", i)
		v.serverID(key+".id", s.ID)
		if j, seen := first[s.ID]; seen && s.ID != "" {
			v.add(key+".id", "is %q, as that of mcp.servers[%d]; every server needs an ID of its own", s.ID, j)
		} else {
			first[s.ID] = i
		}
		v.transport(key, s)
		v.networks(key+".networks", s.Networks)
		v.oauth(key+".oauth", s)
		v.environment(key, s)
		v.times(key, s)
		v.stateful(key, s)
		v.toolNames(key+".allow", s.Allow)
		v.toolNames(key+".deny", s.Deny)
		v.tools(key, s)
	}
}

func (v *validator) serverID(key, id string) {
	switch {
	case id == "":
		v.add(key, `is missing; name the server, for instance id = "files"`)
	case id == "local":
		v.add(key, `is "local", which names the built-in tools; choose another`)
	case !serverID.MatchString(id):
		v.add(key, "is %s; it must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit", quote(id))
	}
}

// transport checks that a server has what its transport needs, and no settings of other transports.
func (v *validator) transport(key string, s MCPServer) {
	switch s.Transport {
	case TransportStdio:
		switch {
		case s.URL != "":
			v.add(key+".url", `is for transport = "http", but the transport is "stdio"; set the one that is meant`)
		case s.Command == "":
			v.add(key+".command", `is missing; name the program that serves, or set transport = "http" and url`)
		}
		if len(s.Headers) > 0 {
			v.add(key+".headers", `is for transport = "http"; a stdio server is given secrets by env`)
		}
		if len(s.Networks) > 0 {
			v.add(key+".networks", `is for transport = "http"; what a stdio server may reach is for the system to say`)
		}
	case TransportHTTP, TransportSSE:
		v.endpoint(key, s)
		if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || len(s.EnvAllow) > 0 || s.Dir != "" || s.User != "" {
			v.add(key, `has transport = "%s", to which command, args, env, env_allow, dir and user mean nothing; remove them`, s.Transport)
		}
	}
}

func (v *validator) endpoint(key string, s MCPServer) {
	if s.URL == "" {
		v.add(key+".url", `is missing; transport = "%s" needs it`, s.Transport)
		return
	}
	v.address(key+".url", s.URL)
	v.encrypted(key+".url", s.URL, s.Networks)
}

// encrypted rejects plain text to another machine unless the operator lists its network.
func (v *validator) encrypted(key, raw string, networks []string) {
	u, err := url.Parse(raw)
	if err == nil && u.Scheme == "http" && u.Host != "" && !loopback.Host(u.Hostname()) && len(networks) == 0 {
		v.add(key, "is plain http to another machine; use https, or name the private network that it is in: networks = [\"10.0.0.0/8\"]")
	}
}

// networks checks CIDR prefixes. They cannot include loopback: a URL that means this machine names it itself.
func (v *validator) networks(key string, list []string) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		p, err := netip.ParsePrefix(raw)
		switch {
		case err != nil:
			v.add(at, `is %s; it must be a network such as "10.0.0.0/8" or "fd00::/8"`, quote(raw))
		case p.Masked() != p:
			v.add(at, "is %s, whose address has bits beyond its length; write %q", quote(raw), p.Masked())
		case p.Bits() == 0:
			v.add(at, "is %s, which is every address there is; name the private network that is meant", quote(raw))
		case p.Overlaps(netip.MustParsePrefix("127.0.0.0/8")), p.Contains(netip.IPv6Loopback()):
			v.add(at, "is %s, which is this machine; for a server on it let url say localhost", quote(raw))
		}
	}
}

func (v *validator) oauth(key string, s MCPServer) {
	o := s.OAuth
	if o.TokenURL == "" && o.ClientID == "" && o.ClientSecret == "" && len(o.Scopes) == 0 {
		return
	}
	if s.Transport == TransportStdio {
		v.add(key, `is for transport = "http" or "sse"; a stdio server is given secrets by env`)
		return
	}
	if o.TokenURL == "" {
		v.add(key+".token_url", "is missing; it is where client_id and client_secret are exchanged for a token")
	}
	if o.ClientID == "" {
		v.add(key+".client_id", "is missing; it is who asks for a token")
	}
	v.address(key+".token_url", o.TokenURL)
	v.encrypted(key+".token_url", o.TokenURL, s.Networks)
	for _, name := range sortedNames(s.Headers) {
		if strings.EqualFold(name, "Authorization") {
			v.add(key, "and headers.%s both say who asks; remove one of the two", name)
		}
	}
}

// times checks that no timeout contradicts another or is too short to be intended.
func (v *validator) times(key string, s MCPServer) {
	v.zeroOrMore(key+".idle_timeout", s.IdleTimeout, time.Second, "keeps connections for ever")
	v.zeroOrMore(key+".elicitation_timeout", s.ElicitationTimeout, time.Second, "does not let the server hold calls")
	if s.ElicitationTimeout > maxHold {
		v.add(key+".elicitation_timeout", "is %s; %s is the most that a call is held for an answer", s.ElicitationTimeout, shortDuration(maxHold))
	}
	v.total(key+".total_timeout", s.TotalTimeout, s.CallTimeout, "call_timeout")
	for _, name := range sortedNames(s.Tools) {
		tool, at := s.Tools[name], join(key+".tools", name)
		v.zeroOrMore(at+".background_timeout", tool.BackgroundTimeout, time.Second, "lets no call go on")
		if tool.BackgroundTimeout > maxDetach {
			v.add(at+".background_timeout", "is %s; %s is the most that a worker keeps a call for", tool.BackgroundTimeout, shortDuration(maxDetach))
		}
		total, timeout, called := tool.TotalTimeout, tool.Timeout, "timeout"
		if timeout == 0 {
			timeout, called = s.CallTimeout, "the server's call_timeout"
		}
		if total == 0 && tool.Timeout > 0 && s.TotalTimeout > 0 && tool.Timeout > s.TotalTimeout {
			v.add(at+".timeout", "is %s, longer than the server's total_timeout, which is %s; give the tool a total_timeout of its own", tool.Timeout, s.TotalTimeout)
		}
		v.total(at+".total_timeout", total, timeout, called)
	}
}

// maxDetach bounds how long a call may continue after its timeout.
const maxDetach = 24 * time.Hour

// maxHold bounds how long a server may hold a call for a response, which is lost with the connection.
const maxHold = 24 * time.Hour

func (v *validator) total(key string, total, timeout time.Duration, called string) {
	if total > 0 && total < timeout {
		v.add(key, "is %s, shorter than %s, which is %s; progress would end a call early: raise it, or leave it out", total, called, timeout)
	}
}

// stateful rejects settings that would send a call to a process other than the one that keeps the state.
func (v *validator) stateful(key string, s MCPServer) {
	if s.SessionAffinity != AffinityTurn {
		return
	}
	if s.OnAllWorkers {
		v.add(key+".on_all_workers", `means that any worker may take a call, but with session_affinity = "turn" all calls of a turn go to one; remove one of the two`)
	}
	for _, name := range sortedNames(s.Tools) {
		if s.Tools[name].LocalActivity {
			v.add(join(key+".tools", name)+".local_activity", `cannot be with session_affinity = "turn": a local activity runs in whichever worker has the turn; remove one of the two`)
		}
	}
}

func (v *validator) environment(key string, s MCPServer) {
	for i, name := range s.EnvAllow {
		if !variableName.MatchString(name) {
			v.add(fmt.Sprintf("%s.env_allow[%d]", key, i), "is %s; it must be a variable's name", quote(name))
		}
	}
	for _, name := range sortedNames(s.Env) {
		if !variableName.MatchString(name) {
			v.add(join(key+".env", name), "is no name for an environment variable")
		}
	}
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// toolNames checks patterns of a server's own tool names.
func (v *validator) toolNames(key string, patterns []string) {
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			v.add(fmt.Sprintf("%s[%d]", key, i), "is %s, which is no pattern of tool names", quote(p))
		}
	}
}

func (v *validator) tools(key string, s MCPServer) {
	for _, name := range sortedNames(s.Tools) {
		tool, at := s.Tools[name], join(key+".tools", name)
		switch {
		case tool.LocalActivity && !tool.Repeatable:
			v.add(at+".local_activity", "needs repeatable = true: a local activity may run twice after a crash; set both, or neither")
		case tool.LocalActivity && tool.BackgroundTimeout > 0:
			v.add(at+".background_timeout", "cannot be with local_activity = true: a local activity is over within a second; remove one of the two")
		case tool.LocalActivity && !s.OnAllWorkers && s.SessionAffinity != AffinityTurn:
			v.add(at+".local_activity", "needs on_all_workers = true on the server: a local activity runs in whichever worker has the turn")
		}
	}
}
