package config

import (
	"fmt"
	"maps"
)

// Layer is one of the places that values come from.
type Layer string

// The layers, each stronger than the one before it.
const (
	LayerDefault     Layer = "default"
	LayerFile        Layer = "file"
	LayerEnvironment Layer = "environment"
	LayerFlag        Layer = "flag"
)

// Origin says where a value came from.
type Origin struct {
	Layer Layer
	// Name is the file's path, the variable's name or, for a flag, the key; empty for a default.
	Name string
	// Line in the file, from 1.
	Line int
	key  string // that was written, which may be a table around the value's
}

// String reads "default", "agent.toml:12", "environment OPENAI_API_KEY" or "command line".
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

// Origins returns the origin of every key that is not a default, by dotted key.
func (l *Loaded) Origins() map[string]Origin { return maps.Clone(l.origins) }

// Origin returns where a key's value came from.
func (l *Loaded) Origin(key string) Origin {
	if o, ok := l.origins[key]; ok {
		return o
	}
	return Origin{Layer: LayerDefault}
}

// origin is that of a key, or of the nearest written key around it.
func (l *loader) origin(key string) Origin {
	best := Origin{Layer: LayerDefault}
	if o, ok := l.loaded.origins[key]; ok {
		return o
	}
	longest := -1
	for k, offset := range l.places.key {
		if len(k) > longest && (k == key || within(k, key)) {
			longest, best = len(k), Origin{Layer: LayerFile, Name: l.loaded.Path, Line: l.places.place(offset).line, key: k}
		}
	}
	return best
}
