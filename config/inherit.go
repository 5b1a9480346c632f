package config

import (
	"errors"
	"fmt"
)

// CheckEnviron reports the variables that the configured servers may inherit (env_allow) and that the environment
// lacks. The process that starts the servers calls it: a client that starts none does not need their secrets. The error
// is an *Error, and ErrCredentials as for a secret that a ${VAR} refers to.
func (c Config) CheckEnviron(environ []string) error {
	have := environment(environ)
	var problems []Problem
	for i, s := range c.MCP.Servers {
		for j, name := range s.EnvAllow {
			if _, set := have[name]; !set && len(problems) < maxProblems {
				key := fmt.Sprintf("mcp.servers[%d].env_allow[%d]", i, j)
				problems = append(problems, Problem{Key: key, Credentials: true, Message: fmt.Sprintf(
					"%s names %s, which is not set: set it, or take it from the list of server %q", key, name, s.ID)})
			}
		}
	}
	return asError(problems)
}

// CheckEnviron is like Config.CheckEnviron, and adds each problem's position in the file.
func (l *Loaded) CheckEnviron(environ []string) error {
	err := l.Config.CheckEnviron(environ)
	var found *Error
	if !errors.As(err, &found) || l.Path == "" {
		return err
	}
	for i, p := range found.Problems {
		if where := l.places.nearest(p.Key); where != (place{}) {
			found.Problems[i].Source, found.Problems[i].Line, found.Problems[i].Column = l.Path, where.line, where.column
		}
	}
	return found
}
