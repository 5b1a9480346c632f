package main

import (
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// echo is a tool that expects the schema of another tool, as the client received it.
const echo = "/json_schema_echo"

// arguments returns the arguments of the tool's calls: those that the suite gives, one per call, or else a sample.
func (f facts) arguments(tool turn.Descriptor, all []turn.Descriptor) []json.RawMessage {
	var told []json.RawMessage
	for _, c := range f.ToolCalls {
		if strings.HasSuffix(tool.ID, "/"+c.Name) {
			told = append(told, c.Arguments)
		}
	}
	switch {
	case f.ToolCalls != nil:
		return told
	case strings.HasSuffix(tool.ID, echo):
		for _, other := range all {
			if other.ID != tool.ID {
				told = append(told, json.RawMessage(`{"schema":`+string(other.Schema)+`}`))
			}
		}
		return told
	}
	return []json.RawMessage{sample(tool.Schema)}
}

// sample makes arguments that match the types in a tool's schema: every property has a value.
func sample(schema json.RawMessage) json.RawMessage {
	var s node
	_ = json.Unmarshal(schema, &s)     // the host has compiled it
	args, _ := json.Marshal(s.value()) // made of what came out of JSON
	return args
}

// node is the part of a JSON schema that sample looks at.
type node struct {
	Type       any             `json:"type"`
	Properties map[string]node `json:"properties"`
	Enum       []any           `json:"enum"`
	Default    any             `json:"default"`
}

func (n node) value() any {
	switch {
	case n.Default != nil:
		return n.Default
	case len(n.Enum) > 0:
		return n.Enum[0]
	}
	switch n.Type {
	case "number", "integer":
		return 5
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		values := map[string]any{}
		for name, p := range n.Properties {
			values[name] = p.value()
		}
		return values
	}
	return "text"
}
