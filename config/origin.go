package config

import (
	"fmt"
	"maps"
	"strings"
)

// Layer is one of the sources of values.
type Layer string

// The layers, each overriding the ones before it.
const (
	LayerDefault     Layer = "default"
	LayerFile        Layer = "file"
	LayerEnvironment Layer = "environment"
	LayerFlag        Layer = "flag"
)

// Origin is the source of a value.
type Origin struct {
	Layer Layer
	// Name is the file's path, the variable's name or, for a flag, the key; empty for a default.
	Name string
	// Line in the file, from 1.
	Line int
}

// String returns "default", "agent.toml:12", "environment OPENAI_API_KEY" or "command line".
func (o Origin) String() string {
	switch o.Layer {
	case LayerFile:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case LayerEnvironment:
		return "environment " + o.Name
	case LayerFlag:
		return "command line (" + o.Name + ")"
	}
	return string(LayerDefault)
}

// Origins returns the origin of every key whose value is not a default, by dotted key.
func (l *Loaded) Origins() map[string]Origin { return maps.Clone(l.origins) }

// Origin returns the origin of a key's value.
func (l *Loaded) Origin(key string) Origin {
	if o, ok := l.origins[key]; ok {
		return o
	}
	return Origin{Layer: LayerDefault}
}

// nearestOrigin returns the origin of a key, or of the nearest enclosing key that has one.
func (l *Loaded) nearestOrigin(key string) Origin {
	for k := key; k != ""; k = k[:max(strings.LastIndexAny(k, ".["), 0)] {
		if o, ok := l.origins[k]; ok {
			return o
		}
	}
	return Origin{Layer: LayerDefault}
}
