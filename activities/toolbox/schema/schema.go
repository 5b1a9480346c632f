package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds on what a schema may be.
const (
	maxSchemaBytes = 128 << 10
	maxSchemas     = 4096    // compiled ones that are kept
	maxKept        = 100_000 // instructions of their patterns: 50 bytes each, up to 1.5 KB with large character classes

	// MaxListInstructions bounds the patterns of all of a server's tools together, compiled.
	MaxListInstructions = 50_000
)

// Schema is one that is ready to validate. The zero value validates nothing.
type Schema struct {
	resolved *jsonschema.Resolved // nil where validating might take too long: only the object itself is checked then
	effort   effort
}

// Compile checks that raw is the JSON schema of an object and makes it ready to validate. A schema without
// properties gets an empty set: providers refuse an object schema that does not name any.
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

// Resolve makes a schema of any type ready to validate. It weighs the schema, its regular expressions included, before the
// library compiles any of it.
func Resolve(raw json.RawMessage) (Schema, error) {
	effort, err := weigh(raw)
	if err != nil {
		return Schema{}, err
	}
	resolved, err := resolve(raw)
	if err != nil {
		return Schema{}, fmt.Errorf("its schema does not compile: %s", plain.Line(err.Error(), 300))
	}
	if effort.visits > maxVisits {
		resolved = nil
	}
	return Schema{resolved, effort}, nil
}

// resolve never loads a remote reference: the library has no loader unless it is given one.
func resolve(raw json.RawMessage) (resolved *jsonschema.Resolved, err error) {
	defer func() {
		if p := recover(); p != nil { // the library meets hostile input here
			err = fmt.Errorf("the schema library panicked: %v", p)
		}
	}()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// OfResult makes the schema of a tool's structured results ready to validate. It may be of any type (SEP-2106). A schema
// that is no good validates nothing: what the tool does is not worse for it.
func OfResult(schema any) Schema {
	raw, err := json.Marshal(schema)
	if err != nil || schema == nil || len(raw) > maxSchemaBytes {
		return Schema{}
	}
	s, err := Resolve(raw)
	if err != nil {
		return Schema{}
	}
	return s
}

// ErrNotChecked is Validate's error for a value that it did not check, because that might take too long.
var ErrNotChecked = errors.New("value is too large or too deep to be checked against the schema")

// Validate says where a value is not what the schema says, or that it is not checked (ErrNotChecked). The zero Schema says
// nothing.
func (c Schema) Validate(v any) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library meets hostile input here
			err = ErrNotChecked
		}
	}()
	if c.resolved == nil {
		return nil
	}
	if deeper(v, maxArgumentsDepth) || c.effort.exceeded(measure(v)) {
		return ErrNotChecked
	}
	return c.resolved.Validate(v)
}

// ApplyDefaults adds the defaults of properties that the object does not have.
func (c Schema) ApplyDefaults(object *map[string]any) error {
	if c.resolved == nil {
		return nil
	}
	return c.resolved.ApplyDefaults(object)
}

// Instructions is the size of the schema's compiled patterns: see MaxListInstructions.
func (c Schema) Instructions() int { return c.effort.instructions }

// Cache keeps compiled schemas by their descriptor's hash.
type Cache struct {
	mu           sync.Mutex
	m            map[string]Schema
	instructions int // of the patterns in m
}

// Get is the schema of a tool's arguments.
func (s *Cache) Get(d turn.Descriptor) (Schema, error) {
	key := d.Hash + "\x00" + string(d.Schema)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.m[key]; ok {
		return r, nil
	}
	_, r, err := Compile(d.Schema)
	if err != nil {
		return Schema{}, fmt.Errorf("tool %s: %w", d.ID, err)
	}
	if s.m == nil || len(s.m) >= maxSchemas || s.instructions > maxKept {
		s.m, s.instructions = map[string]Schema{}, 0
	}
	s.instructions += r.Instructions()
	s.m[key] = r
	return r, nil
}

// CheckArguments validates arguments against the schema. Its error is meant for the model.
func (c Schema) CheckArguments(id string, arguments json.RawMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("arguments of %s: the schema library panicked on them", id)
		}
	}()
	object, err := Object(arguments)
	if err != nil {
		return fmt.Errorf("arguments of %s: %w", id, err)
	}
	if deeper(object, maxArgumentsDepth) {
		return fmt.Errorf("arguments of %s: nested more than %d deep", id, maxArgumentsDepth)
	}
	if c.resolved == nil {
		return nil
	}
	if values, text := measure(object); c.effort.exceeded(values, text) {
		return fmt.Errorf("arguments of %s: %d values with %d bytes of text are too many to be checked against its schema; send fewer",
			id, values, text)
	}
	if err := c.resolved.Validate(object); err != nil {
		return fmt.Errorf("arguments of %s: %s", id, plain.Line(err.Error(), 600))
	}
	return nil
}

// deeper reports whether v has values more than depth below it.
func deeper(v any, depth int) bool {
	if depth < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if deeper(e, depth-1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if deeper(e, depth-1) {
				return true
			}
		}
	}
	return false
}

// measure counts v and the values within it, and the bytes of their text and names. A string counts one byte more than it
// has: a pattern looks at its end, too.
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

// Object reads exactly one JSON object. Nothing at all stands for an empty one: models send that for tools
// without parameters.
func Object(raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("not a JSON object: %s", plain.Line(err.Error(), 200))
	}
	if object == nil {
		return nil, errors.New("not a JSON object: null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}
