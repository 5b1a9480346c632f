package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/regex"
)

// A validator applies subschemas, some of them (such as those of allOf) to the same value. A schema that applies
// itself to the same value never ends, and crashes the process, because a stack overflow cannot be recovered from. A
// schema that refers twice to another one, which refers twice to a third one, and so on, takes exponential time. So
// the cost of a schema is estimated before anything is validated with it.

// Bounds on validation.
const (
	maxSchemaDepth    = 64         // levels of schemas within schemas
	maxArgumentsDepth = 32         // levels of values within values
	maxVisits         = 10_000     // subschemas applied on the path from the root to one value
	maxWork           = 10_000_000 // visits that validating all values may take

	maxPatternBytes        = 4 << 10
	maxPatternInstructions = 4000   // of one compiled pattern
	maxInstructions        = 10_000 // of all patterns of a schema
	stepsPerVisit          = 16     // number of steps of a regular expression that take as long as one visit
)

// typeNames are the types of JSON Schema. The library accepts any word as a type, but a model provider refuses the
// whole request because of an unknown one.
var typeNames = map[string]bool{
	"object": true, "array": true, "string": true, "number": true, "integer": true, "boolean": true, "null": true,
}

// readKeywords are the keywords that costOf takes into account, as JSON Schema spells them. The library also accepts
// other spellings in upper and lower case, because it decodes into Go structs, so those are refused.
var readKeywords = []string{
	"$ref", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "not", "if", "then", "else", "properties",
	"prefixItems",
	"patternProperties", "items", "additionalProperties", "additionalItems", "contains", "propertyNames",
	"unevaluatedItems",
	"unevaluatedProperties", "contentSchema", "$defs", "definitions", "$dynamicRef", "$recursiveRef", "$dynamicAnchor",
	"$id", "type", "enum",
	"uniqueItems", "pattern",
}

// schemaNode is a schema, reduced to what its cost depends on.
type schemaNode struct {
	onValue    []*schemaNode               // subschemas applied to the same value
	onChildren []*schemaNode               // subschemas applied to elements or properties, maybe several to the same one
	onOneChild []*schemaNode               // subschemas applied to elements or properties, each to a different one
	visiting   bool                        // checkCycles has begun and not finished
	acyclic    bool                        // checkCycles has finished
	enum       int                         // number of values of its enum
	matching   int                         // instructions of its own patterns
	costAt     [maxArgumentsDepth + 1]cost // results of the method cost by depth
}

// schemaGraph has the nodes of a schema and its subschemas, by their JSON pointers, because references name schemas by
// pointer.
type schemaGraph struct {
	root         any // the decoded schema
	nodes        map[string]*schemaNode
	instructions int  // of all patterns
	unique       bool // a subschema has uniqueItems
}

// costOf checks a schema and all its subschemas, and returns the cost of validating with it. If validating one value
// may take too long, visits of the cost exceeds maxVisits.
func costOf(raw json.RawMessage) (validationCost, error) {
	g := schemaGraph{nodes: map[string]*schemaNode{}}
	if err := json.Unmarshal(raw, &g.root); err != nil {
		return validationCost{}, fmt.Errorf("reading its schema: %w", err)
	}
	root, err := g.node("", g.root)
	if err != nil {
		return validationCost{}, err
	}
	for _, n := range g.nodes {
		if err := n.checkCycles(); err != nil {
			return validationCost{}, err
		}
	}
	return validationCost{root.cost(maxArgumentsDepth), g.instructions, g.unique}, nil
}

// node returns the node of the schema at a JSON pointer, whose decoded JSON is value. It builds the node and those of
// its subschemas if the graph does not have them. A schema that is not an object is true or false and has no keywords;
// the library refuses any other value.
func (g *schemaGraph) node(pointer string, value any) (*schemaNode, error) {
	if n := g.nodes[pointer]; n != nil {
		return n, nil
	}
	if strings.Count(pointer, "/") > 2*maxSchemaDepth { // a level has up to two parts, such as properties/name
		return nil, fmt.Errorf("its schema is nested more than %d deep", maxSchemaDepth)
	}
	n := &schemaNode{}
	g.nodes[pointer] = n // before the subschemas, which may refer to it
	s, ok := value.(map[string]any)
	if !ok {
		return n, nil
	}
	if err := checkKeywords(s, pointer == ""); err != nil {
		return nil, err
	}
	for keyword, v := range s {
		for _, known := range readKeywords {
			if keyword != known && strings.EqualFold(keyword, known) {
				return nil, fmt.Errorf("its schema has %q; JSON Schema spells it %q", printable.Line(keyword, 40), known)
			}
		}
		if err := g.keyword(n, pointer+"/"+escapePointer(keyword), keyword, v); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// keyword adds to n what one keyword of its schema, with the value v, costs: subschemas, patterns or values of an
// enum. It knows the keywords of JSON Schema 2020-12 and draft 7.
func (g *schemaGraph) keyword(n *schemaNode, pointer, keyword string, v any) error {
	var err error
	switch keyword {
	case "$ref":
		var target *schemaNode
		target, err = g.reference(v)
		n.onValue = append(n.onValue, target)
	case "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies":
		err = g.each(&n.onValue, pointer, v)
	case "not", "if", "then", "else":
		err = g.one(&n.onValue, pointer, v)
	case "properties", "prefixItems":
		err = g.each(&n.onOneChild, pointer, v)
	case "pattern":
		if expr, ok := v.(string); ok {
			err = g.pattern(n, expr)
		}
	case "patternProperties":
		names, _ := v.(map[string]any)
		for name := range names {
			if err := g.pattern(n, name); err != nil {
				return err
			}
		}
		err = g.each(&n.onChildren, pointer, v)
	case "items":
		if _, list := v.([]any); list {
			return g.each(&n.onOneChild, pointer, v)
		}
		err = g.one(&n.onChildren, pointer, v)
	case "additionalProperties", "additionalItems", "contains", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties", "contentSchema":
		err = g.one(&n.onChildren, pointer, v)
	case "enum":
		list, _ := v.([]any)
		n.enum = len(list)
	case "uniqueItems":
		g.unique = true
	case "$defs", "definitions":
		err = g.each(new([]*schemaNode), pointer, v) // applied by reference only
	}
	return err
}

// pattern adds the cost of a regular expression that is matched against the value or its property names.
func (g *schemaGraph) pattern(n *schemaNode, expr string) error {
	instructions, err := regex.Count(expr, maxPatternBytes, maxPatternInstructions)
	if err != nil {
		return fmt.Errorf("its schema has the pattern %q: %s", printable.Line(expr, 40), printable.Line(err.Error(), 200))
	}
	n.matching += instructions
	if g.instructions += instructions; g.instructions > maxInstructions {
		return fmt.Errorf("the patterns of its schema compile to more than %d instructions", maxInstructions)
	}
	return nil
}

// one adds the node of a single subschema, at this pointer, to a list.
func (g *schemaGraph) one(to *[]*schemaNode, pointer string, v any) error {
	n, err := g.node(pointer, v)
	*to = append(*to, n)
	return err
}

// each adds the nodes of all subschemas in v, a map or a list at this pointer, to a list.
func (g *schemaGraph) each(to *[]*schemaNode, pointer string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for name, s := range v {
			if err := g.one(to, pointer+"/"+escapePointer(name), s); err != nil {
				return err
			}
		}
	case []any:
		for i, s := range v {
			if err := g.one(to, pointer+"/"+strconv.Itoa(i), s); err != nil {
				return err
			}
		}
	}
	return nil
}

// reference returns the node of the schema that a $ref names. The $ref must be a JSON pointer within the same schema.
func (g *schemaGraph) reference(v any) (*schemaNode, error) {
	ref, _ := v.(string)
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if !strings.HasPrefix(ref, "#") || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("its schema refers to %q; only references within it (#/...) are followed",
			printable.Line(ref, 80))
	}
	value := g.root
	canonical := "" // the pointer in the spelling that node uses, so that a schema has only one node
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch in := value.(type) {
		case map[string]any:
			value = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("its schema refers to %q, which is not there", printable.Line(ref, 80))
			}
			value, part = in[i], strconv.Itoa(i)
		default:
			value = nil
		}
		canonical += "/" + escapePointer(part)
	}
	if value == nil {
		return nil, fmt.Errorf("its schema refers to %q, which is not there", printable.Line(ref, 80))
	}
	return g.node(canonical, value)
}

func escapePointer(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// checkKeywords returns an error if a schema has references that costOf cannot follow, or an unknown type. root means
// that it is the whole schema and not a subschema.
func checkKeywords(s map[string]any, root bool) error {
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef", "$dynamicAnchor"} {
		if _, ok := s[keyword]; ok {
			return fmt.Errorf("its schema uses %s, which is not followed", keyword)
		}
	}
	if _, ok := s["$id"]; ok && !root {
		return errors.New("its schema has an $id within, which is not followed")
	}
	names, isList := s["type"].([]any)
	if name, ok := s["type"]; ok && !isList {
		names = []any{name}
	}
	for _, n := range names {
		if name, _ := n.(string); !typeNames[name] {
			return fmt.Errorf("its schema has the type %q, which JSON Schema does not know", printable.Line(fmt.Sprint(n), 40))
		}
	}
	return nil
}

// checkCycles returns an error if the schema applies itself to the same value, directly or through other schemas.
func (n *schemaNode) checkCycles() error {
	switch {
	case n.acyclic:
		return nil
	case n.visiting:
		return errors.New("its schema refers to itself without end")
	}
	n.visiting = true
	for _, m := range n.onValue {
		if err := m.checkCycles(); err != nil {
			return err
		}
	}
	n.visiting, n.acyclic = false, true
	return nil
}
