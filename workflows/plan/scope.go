package plan

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Scope is what the calls of a step of the model may change: those of Step.Tool and Step.Tools, in Step.Paths.
type Scope struct {
	Tools []string `json:"tools,omitempty"`
	Paths []string `json:"paths,omitempty"`
}

// ScopeOf returns the scope in the arguments of a call that gives a step to an agent. It is empty if they have none.
func ScopeOf(arguments string) (s Scope, err error) {
	err = json.Unmarshal([]byte(arguments), &s)
	return s, err
}

// Empty reports whether the scope names nothing.
func (s Scope) Empty() bool { return len(s.Tools)+len(s.Paths) == 0 }

// scope returns what the calls of the step may change.
func (s Step) scope() Scope {
	names := slices.Concat([]string{s.Tool}, s.Tools)
	return Scope{slices.DeleteFunc(names, func(n string) bool { return n == "" }), s.Paths}
}

// Outside returns why a call that changes something is not of the scope, or "" if it is.
func (s Scope) Outside(tool, arguments string) string {
	if why := s.outside(tool, arguments); why != "" {
		return "this call is not in the plan: the step " + why
	}
	return ""
}

// Outside returns why a call that changes something is not of the current steps, or "" if one of them permits it: it
// names the tool and, if it names paths, those of the call's arguments.
func (p Progress) Outside(tool, arguments string) string {
	if !p.Active() || p.due(tool, arguments) {
		return ""
	}
	why := ""
	for i, s := range p.Steps {
		if s.State != StateCurrent {
			continue
		}
		reason := s.outside(tool, arguments)
		if reason == "" {
			return ""
		}
		if why == "" {
			why = fmt.Sprintf("this call is not in the plan: step %d %s", i+1, reason)
		}
	}
	return why
}

// outside returns why a call is not of the step, as the rest of a sentence that begins with the step, or "" if it is.
func (s StepProgress) outside(tool, arguments string) string {
	if len(s.calls) > 0 {
		return "is one call of " + s.calls[0].Tool + " with other arguments or another tool"
	}
	return Step{Tool: s.Tool, Tools: s.Tools, Paths: s.Paths}.scope().outside(tool, arguments)
}

// outside returns why a call is not of the scope, as the rest of a sentence that begins with the step, or "" if it is.
func (s Scope) outside(tool, arguments string) string {
	switch {
	case len(s.Tools) == 0:
		return "names no tool that may change something"
	case !slices.ContainsFunc(s.Tools, func(name string) bool { return matchesTool(name, tool) }):
		return "may call only " + strings.Join(s.Tools, ", ")
	case len(s.Paths) == 0:
		return ""
	}
	return s.outsidePaths(arguments)
}

// matchesTool reports whether a tool has this name: its ID, its wire name, or the beginning of its ID before a *.
func matchesTool(name, tool string) bool {
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		return strings.HasPrefix(tool, prefix)
	}
	return name == tool || name == wireName(tool)
}

// pathArguments are the names of the arguments that name files. A call of a step with paths must have the first, or one
// of the others.
var pathArguments = []string{"path", "file", "file_path", "filename", "source", "destination", "paths", "files"}

// outsidePaths returns why the paths in a call's arguments are not those of the scope: see outside. A path that is not
// in its simplest form, such as one with .., is never one of them.
func (s Scope) outsidePaths(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil {
		return "names paths, and the arguments are no object"
	}
	known := false
	for _, key := range pathArguments {
		raw, ok := object[key]
		if !ok {
			continue
		}
		var one string
		var list []string
		if json.Unmarshal(raw, &one) == nil {
			list = []string{one}
		} else if json.Unmarshal(raw, &list) != nil {
			return "names paths, and the argument " + key + " is none"
		}
		for _, name := range list {
			known = true
			if !s.permitsPath(name) {
				return "may change only " + strings.Join(s.Paths, ", ")
			}
		}
	}
	if !known {
		return "may change only " + strings.Join(s.Paths, ", ") + ", and the arguments name no path"
	}
	return ""
}

// permitsPath reports whether a path is one of the scope's paths or inside one.
func (s Scope) permitsPath(name string) bool {
	clean, ok := cleanPath(name)
	if !ok || clean != name {
		return false
	}
	return slices.ContainsFunc(s.Paths, func(allowed string) bool {
		allowed, _ = cleanPath(allowed)
		return allowed == "." || clean == allowed || strings.HasPrefix(clean, allowed+"/")
	})
}

// cleanPath returns the simplest form of a path. It returns false unless the path is relative and stays inside the
// folder that it is relative to.
func cleanPath(name string) (string, bool) {
	clean := path.Clean(name)
	inside := clean != ".." && !strings.HasPrefix(clean, "../") && !path.IsAbs(clean)
	return clean, name != "" && inside && !strings.ContainsAny(name, "\\:\x00\n")
}
