package toolbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/workflows/turn"
)

// Bounds on what a schema may be.
const (
	maxSchemaBytes = 128 << 10
	maxSchemas     = 4096 // compiled ones that are kept
)

// compiled is a schema that is ready to validate.
type compiled struct {
	resolved *jsonschema.Resolved // nil where validating might take too long: only the object itself is checked then
}

// compileSchema checks that raw is the JSON schema of an object and makes it ready to validate. A schema without
// properties gets an empty set: providers refuse an object schema that does not name any.
func compileSchema(raw json.RawMessage) (json.RawMessage, compiled, error) {
	if len(raw) > maxSchemaBytes {
		return nil, compiled{}, fmt.Errorf("its schema is over %d bytes", maxSchemaBytes)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, compiled{}, errors.New("its schema is not a JSON object")
	}
	if string(fields["type"]) != `"object"` {
		return nil, compiled{}, errors.New(`its schema is not of type "object"`)
	}
	if _, ok := fields["properties"]; !ok {
		fields["properties"] = json.RawMessage("{}")
	}
	canonical, err := json.Marshal(fields)
	if err != nil {
		return nil, compiled{}, fmt.Errorf("writing its schema: %w", err)
	}
	intricate, err := weigh(canonical)
	if err != nil {
		return nil, compiled{}, err
	}
	resolved, err := resolveSchema(canonical)
	if err != nil {
		return nil, compiled{}, fmt.Errorf("its schema does not compile: %s", oneLine(err.Error(), 300))
	}
	if intricate {
		resolved = nil
	}
	return canonical, compiled{resolved}, nil
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

// compileOutput makes the schema of a tool's structured results ready to validate. It may be of any type (SEP-2106). A schema
// that is no good validates nothing: what the tool does is not worse for it.
func compileOutput(schema any) compiled {
	raw, err := json.Marshal(schema)
	if err != nil || schema == nil || len(raw) > maxSchemaBytes {
		return compiled{}
	}
	if intricate, err := weigh(raw); err != nil || intricate {
		return compiled{}
	}
	resolved, err := resolveSchema(raw)
	if err != nil {
		return compiled{}
	}
	return compiled{resolved}
}

// checkOutput says to the model where a structured result is not what its tool promises. The result is kept as it is.
func (s *session) checkOutput(tool string, r *mcp.CallToolResult) (note string) {
	s.mu.Lock()
	schema := s.offered.outputs[tool]
	s.mu.Unlock()
	if r.IsError || r.StructuredContent == nil || schema == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil { // the library meets hostile input here
			note = ""
		}
	}()
	c := compileOutput(schema)
	if c.resolved == nil || deeper(r.StructuredContent, maxArgumentsDepth) {
		return ""
	}
	if err := c.resolved.Validate(r.StructuredContent); err != nil {
		return "[note: this result is not what the tool's output schema promises: " + s.owner.clean(err.Error(), 300) + "]"
	}
	return ""
}

// schemas keeps compiled schemas by their descriptor's hash.
type schemas struct {
	mu sync.Mutex
	m  map[string]compiled
}

func (s *schemas) get(d turn.Descriptor) (compiled, error) {
	key := d.Hash + "\x00" + string(d.Schema)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.m[key]; ok {
		return r, nil
	}
	_, r, err := compileSchema(d.Schema)
	if err != nil {
		return compiled{}, fmt.Errorf("tool %s: %w", d.ID, err)
	}
	if s.m == nil || len(s.m) >= maxSchemas {
		s.m = map[string]compiled{}
	}
	s.m[key] = r
	return r, nil
}

// checkArguments validates arguments against a compiled schema. Its error is meant for the model.
func checkArguments(id string, c compiled, arguments json.RawMessage) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("arguments of %s: the schema library panicked on them", id)
		}
	}()
	object, err := decodeObject(arguments)
	if err != nil {
		return fmt.Errorf("arguments of %s: %w", id, err)
	}
	if deeper(object, maxArgumentsDepth) {
		return fmt.Errorf("arguments of %s: nested more than %d deep", id, maxArgumentsDepth)
	}
	if c.resolved == nil {
		return nil
	}
	if err := c.resolved.Validate(object); err != nil {
		return fmt.Errorf("arguments of %s: %s", id, oneLine(err.Error(), 600))
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
