package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
)

// serverID is what a server's ID may look like, since it is part of tool IDs.
var serverID = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// variableName is what an environment variable may be called.
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
		v.environment(key, s)
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

// transport checks that a server has what its transport needs, and nothing of the other one.
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
	case TransportHTTP:
		if s.URL == "" {
			v.add(key+".url", `is missing; transport = "http" needs it`)
		}
		v.address(key+".url", s.URL)
		if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || len(s.EnvAllow) > 0 || s.Dir != "" {
			v.add(key, `has transport = "http", to which command, args, env, env_allow and dir mean nothing; remove them`)
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
		case tool.Quick && !tool.Repeatable:
			v.add(at+".quick", "needs repeatable = true: a quick call may run twice after a crash; set both, or neither")
		case tool.Quick && !s.Everywhere:
			v.add(at+".quick", "needs everywhere = true on the server: a quick call runs in whichever worker has the turn")
		}
	}
}
