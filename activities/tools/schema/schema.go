package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds on schemas.
const (
	maxSchemaBytes = 128 << 10

	// MaxListInstructions bounds the instructions of the compiled patterns of all of a server's tools together.
	MaxListInstructions = 50_000
)

// Schema is a compiled schema. The zero value accepts every value.
type Schema struct {
	resolved *jsonschema.Resolved // nil if validation might take too long; every value is then accepted
	cost     validationCost
}

// Compile checks that raw is the JSON schema of an object and compiles it. It also returns the schema's canonical
// JSON, to which it adds empty properties if there are none, because providers refuse an object schema without
// properties.
func Compile(raw json.RawMessage) (json.RawMessage, Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, Schema{}, fmt.Errorf("its schema is over %d bytes", maxSchemaBytes)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, Schema{}, errors.New("its schema is not a JSON object")
	}
	if string(fields["type"]) != `"object"` {
		return nil, Schema{}, errors.New(`its schema is not of type "object"`)
	}
	if _, ok := fields["properties"]; !ok {
		fields["properties"] = json.RawMessage("{}")
	}
	canonical, err := json.Marshal(fields)
	if err != nil {
		return nil, Schema{}, fmt.Errorf("writing its schema: %w", err)
	}
	s, err := Resolve(canonical)
	return canonical, s, err
}

// Resolve compiles a schema of any type. It estimates the schema's cost, including that of its regular expressions,
// before the library compiles any of it. If validating one value might take too long, there is no error, but the Schema
// accepts every value.
func Resolve(raw json.RawMessage) (Schema, error) {
	cost, err := costOf(raw)
	if err != nil {
		return Schema{}, err
	}
	resolved, err := resolve(raw)
	if err != nil {
		return Schema{}, fmt.Errorf("its schema does not compile: %s", printable.Line(err.Error(), 300))
	}
	if cost.visits > maxVisits {
		resolved = nil
	}
	return Schema{resolved, cost}, nil
}

// resolve compiles a schema with the library. It loads no remote reference, because it gives the library no loader.
func resolve(raw json.RawMessage) (resolved *jsonschema.Resolved, err error) {
	defer func() {
		if p := recover(); p != nil { // the library may panic on hostile input
			err = fmt.Errorf("the schema library panicked: %v", p)
		}
	}()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// Validate returns an error that says where a value violates the schema, or that checking it might take too long. The
// zero Schema accepts every value, and so does one that is itself too expensive: see Resolve.
func (s Schema) Validate(v any) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library may panic on hostile input
			err = errors.New("the schema library panicked on it")
		}
	}()
	if s.resolved == nil {
		return nil
	}
	if deeperThan(v, maxArgumentsDepth) {
		return fmt.Errorf("nested more than %d deep", maxArgumentsDepth)
	}
	if values, text := measure(v); s.cost.exceeded(values, text) {
		return fmt.Errorf("%d values with %d bytes of text are too many to be checked against its schema; send fewer",
			values, text)
	}
	return s.resolved.Validate(v)
}

// ApplyDefaults adds the defaults of properties that the object lacks. A Schema that accepts every value adds none.
func (s Schema) ApplyDefaults(object *map[string]any) error {
	if s.resolved == nil {
		return nil
	}
	return s.resolved.ApplyDefaults(object)
}

// Instructions returns the number of instructions of the schema's compiled patterns (see MaxListInstructions).
func (s Schema) Instructions() int { return s.cost.instructions }

// Bounds on the compiled schemas that a Cache keeps.
const (
	maxKept          = 4096
	maxKeptBytes     = 64 << 20
	instructionBytes = 200 // estimated size of a pattern's instruction: 50 bytes, or up to 1.5 KB with character classes
	expansion        = 8   // estimated bytes of a compiled schema for each byte of its JSON
)

// Cache keeps the compiled schemas that were used last, by the hash of their text. The zero value is empty and ready
// to use.
type Cache struct {
	mu    sync.Mutex
	kept  *simplelru.LRU[[sha256.Size]byte, keptSchema]
	bytes int // estimated size of the schemas in kept
}

// keptSchema is a schema in a Cache, with its estimated size in memory.
type keptSchema struct {
	Schema
	bytes int
}

// Get returns the compiled schema of a tool's arguments. It compiles the schema if the cache does not have it; other
// callers of Get wait meanwhile.
func (c *Cache) Get(d turn.Descriptor) (Schema, error) {
	key := sha256.Sum256(d.Schema)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		// There is an error only for a size that is not positive.
		c.kept, _ = simplelru.NewLRU(maxKept, func(_ [sha256.Size]byte, k keptSchema) { c.bytes -= k.bytes })
	}
	if k, ok := c.kept.Get(key); ok {
		return k.Schema, nil
	}
	_, compiled, err := Compile(d.Schema)
	if err != nil {
		return Schema{}, fmt.Errorf("tool %s: %w", d.ID, err)
	}
	k := keptSchema{compiled, expansion*len(d.Schema) + instructionBytes*compiled.Instructions()}
	c.bytes += k.bytes
	c.kept.Add(key, k)
	for c.bytes > maxKeptBytes {
		c.kept.RemoveOldest()
	}
	return compiled, nil
}

// CheckArguments validates the arguments of the tool id against the schema. Its error is meant for the model.
func (s Schema) CheckArguments(id string, arguments json.RawMessage) error {
	object, err := Object(arguments)
	if err == nil {
		err = s.Validate(object)
	}
	if err != nil {
		return fmt.Errorf("arguments of %s: %s", id, printable.Line(err.Error(), 600))
	}
	return nil
}

// deeperThan reports whether v contains values more than depth levels below v.
func deeperThan(v any, depth int) bool {
	if depth < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if deeperThan(e, depth-1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if deeperThan(e, depth-1) {
				return true
			}
		}
	}
	return false
}

// measure returns the number of values in v, including v itself, and the bytes of their strings and property names.
// Each string counts one byte more than its length, because a pattern also examines its end.
func measure(v any) (values, text int) {
	values = 1
	add := func(v any) {
		n, bytes := measure(v)
		values, text = values+n, text+bytes
	}
	switch v := v.(type) {
	case string:
		text = len(v) + 1
	case map[string]any:
		for name, e := range v {
			text += len(name) + 1
			add(e)
		}
	case []any:
		for _, e := range v {
			add(e)
		}
	}
	return values, text
}

// Object parses exactly one JSON object. It reads empty input as an empty object, because models send that for tools
// without parameters.
func Object(raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("not a JSON object: %s", printable.Line(err.Error(), 200))
	}
	if object == nil {
		return nil, errors.New("not a JSON object: null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}
