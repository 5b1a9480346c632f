package toolbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds on what a schema may be.
const (
	maxSchemaBytes = 128 << 10
	maxSchemas     = 4096 // compiled ones that are kept
)

// compileSchema checks that raw is the JSON schema of an object and makes it ready to validate. A schema without
// properties gets an empty set: providers refuse an object schema that does not name any.
func compileSchema(raw json.RawMessage) (json.RawMessage, *jsonschema.Resolved, error) {
	if len(raw) > maxSchemaBytes {
		return nil, nil, fmt.Errorf("its schema is over %d bytes", maxSchemaBytes)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, nil, errors.New("its schema is not a JSON object")
	}
	if string(fields["type"]) != `"object"` {
		return nil, nil, errors.New(`its schema is not of type "object"`)
	}
	if _, ok := fields["properties"]; !ok {
		fields["properties"] = json.RawMessage("{}")
	}
	canonical, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, fmt.Errorf("writing its schema: %w", err)
	}
	if err := checkTypes(canonical, 0); err != nil {
		return nil, nil, err
	}
	resolved, err := resolveSchema(canonical)
	if err != nil {
		return nil, nil, fmt.Errorf("its schema does not compile: %s", oneLine(err.Error(), 300))
	}
	return canonical, resolved, nil
}

// maxSchemaDepth bounds how deep schemas may be nested.
const maxSchemaDepth = 64

// typeNames are the types that JSON Schema knows. The library compiles any word; providers refuse the whole request.
var typeNames = map[string]bool{
	"object": true, "array": true, "string": true, "number": true, "integer": true, "boolean": true, "null": true,
}

// checkTypes checks the type keyword of a schema and of every schema in it. What is not an object is no concern here.
func checkTypes(raw json.RawMessage, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("its schema is nested more than %d deep", maxSchemaDepth)
	}
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	if err := checkType(s["type"]); err != nil {
		return err
	}
	for keyword, value := range s {
		for _, sub := range subschemas(keyword, value) {
			if err := checkTypes(sub, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkType(raw json.RawMessage) error {
	var names []string
	var name string
	switch {
	case raw == nil:
	case json.Unmarshal(raw, &name) == nil:
		names = []string{name}
	case json.Unmarshal(raw, &names) != nil:
		return errors.New("its schema has a type that is no name")
	}
	for _, n := range names {
		if !typeNames[n] {
			return fmt.Errorf("its schema has the type %q, which JSON Schema does not know", oneLine(n, 40))
		}
	}
	return nil
}

// subschemas are the schemas that a keyword's value holds (JSON Schema 2020-12 and draft 7).
func subschemas(keyword string, value json.RawMessage) []json.RawMessage {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		var m map[string]json.RawMessage
		_ = json.Unmarshal(value, &m) // the library refuses what is not an object
		return slices.Collect(maps.Values(m))
	case "allOf", "anyOf", "oneOf", "prefixItems":
		var list []json.RawMessage
		_ = json.Unmarshal(value, &list) // as above
		return list
	case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "additionalItems":
		return []json.RawMessage{value}
	}
	return nil
}

// resolveSchema never loads a remote reference; the library has no loader unless it is given one.
func resolveSchema(raw json.RawMessage) (resolved *jsonschema.Resolved, err error) {
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

// schemas keeps compiled schemas by their descriptor's hash.
type schemas struct {
	mu sync.Mutex
	m  map[string]*jsonschema.Resolved
}

func (s *schemas) get(d turn.Descriptor) (*jsonschema.Resolved, error) {
	key := d.Hash + "\x00" + string(d.Schema)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.m[key]; ok {
		return r, nil
	}
	_, r, err := compileSchema(d.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", d.ID, err)
	}
	if s.m == nil || len(s.m) >= maxSchemas {
		s.m = map[string]*jsonschema.Resolved{}
	}
	s.m[key] = r
	return r, nil
}

// checkArguments validates arguments against a compiled schema. Its error is meant for the model.
func checkArguments(id string, r *jsonschema.Resolved, arguments json.RawMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("arguments of %s: the schema library panicked on them", id)
		}
	}()
	object, err := decodeObject(arguments)
	if err != nil {
		return fmt.Errorf("arguments of %s: %w", id, err)
	}
	if err := r.Validate(object); err != nil {
		return fmt.Errorf("arguments of %s: %s", id, oneLine(err.Error(), 600))
	}
	return nil
}

// decodeObject reads exactly one JSON object. Nothing at all stands for an empty one: models send that for tools
// without parameters.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("not a JSON object: %s", oneLine(err.Error(), 200))
	}
	if object == nil {
		return nil, errors.New("not a JSON object: null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}
