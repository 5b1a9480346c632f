package main

import "encoding/json"

// sample makes arguments that a tool's schema accepts, as far as types tell: every property has a value.
func sample(schema json.RawMessage) (json.RawMessage, error) {
	var s node
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	return json.Marshal(s.value())
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
