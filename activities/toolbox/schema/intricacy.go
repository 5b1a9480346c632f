package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/internal/regex"
)

// A validator walks into a schema's subschemas, some of them without walking into the value: one that refers to
// itself that way never ends, and takes the process with it (a stack overflow cannot be recovered from). One that
// refers to the next twice, and that to the next twice, takes time without bound. So schemas are weighed before
// anything is validated with them.

// Bounds of what is validated.
const (
	maxSchemaDepth    = 64     // of schemas in schemas
	maxArgumentsDepth = 32     // of values in values
	maxVisits         = 10_000 // of subschemas for one value in the arguments
	maxWork           = 10_000_000

	maxPatternBytes        = 4 << 10
	maxPatternInstructions = 4000   // of one pattern, compiled
	maxInstructions        = 10_000 // of all patterns of a schema
	stepsPerVisit          = 16     // of a regular expression take about as long as one visit
)

// typeNames are the types that JSON Schema knows. The library compiles any word; providers refuse the whole request.
var typeNames = map[string]bool{
	"object": true, "array": true, "string": true, "number": true, "integer": true, "boolean": true, "null": true,
}

// weighed are the keywords that the weighing looks at, as JSON Schema spells them. The library, like all that is decoded into
// Go structs, takes them in other cases as well.
var weighed = []string{
	"$ref", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "not", "if", "then", "else", "properties", "prefixItems",
	"patternProperties", "items", "additionalProperties", "additionalItems", "contains", "propertyNames", "unevaluatedItems",
	"unevaluatedProperties", "contentSchema", "$defs", "definitions", "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$id", "type", "enum",
	"uniqueItems", "pattern",
}

// schemaNode is a schema as far as weighing it needs.
type schemaNode struct {
	here     []*schemaNode // applied to the same value
	below    []*schemaNode // applied to values in it, several to the same perhaps
	oneBelow []*schemaNode // applied to values in it, each to another
	visiting bool
	acyclic  bool
	enum     int                         // values that it lists
	matching int                         // instructions of its own patterns
	costFor  [maxArgumentsDepth + 1]cost // memo of cost by depth
}

// schemaGraph builds nodes by their JSON pointers, which is how references name them.
type schemaGraph struct {
	root         any
	nodes        map[string]*schemaNode
	instructions int
	unique       bool
}

// weigh checks every schema within raw and says what validating with it takes: for one value more than maxVisits if that may
// take too long.
func weigh(raw json.RawMessage) (effort, error) {
	g := schemaGraph{nodes: map[string]*schemaNode{}}
	if err := json.Unmarshal(raw, &g.root); err != nil {
		return effort{}, fmt.Errorf("reading its schema: %w", err)
	}
	root, err := g.node("", g.root)
	if err != nil {
		return effort{}, err
	}
	for _, n := range g.nodes {
		if err := n.checkCycles(); err != nil {
			return effort{}, err
		}
	}
	return effort{root.cost(maxArgumentsDepth), g.instructions, g.unique}, nil
}

// node builds the node of the value at a pointer. What is not an object is true, false, or refused by the library.
func (g *schemaGraph) node(pointer string, value any) (*schemaNode, error) {
	if n := g.nodes[pointer]; n != nil {
		return n, nil
	}
	if strings.Count(pointer, "/") > 2*maxSchemaDepth { // two steps a schema: properties, name
		return nil, fmt.Errorf("its schema is nested more than %d deep", maxSchemaDepth)
	}
	n := &schemaNode{}
	g.nodes[pointer] = n
	s, ok := value.(map[string]any)
	if !ok {
		return n, nil
	}
	if err := checkKeywords(s, pointer == ""); err != nil {
		return nil, err
	}
	for keyword, v := range s {
		for _, known := range weighed {
			if keyword != known && strings.EqualFold(keyword, known) {
				return nil, fmt.Errorf("its schema has %q, which is to be %q", plain.Line(keyword, 40), known)
			}
		}
		if err := g.keyword(n, pointer+"/"+escapePointer(keyword), keyword, v); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// keyword adds what one keyword applies (JSON Schema 2020-12 and draft 7).
func (g *schemaGraph) keyword(n *schemaNode, pointer, keyword string, v any) error {
	var err error
	switch keyword {
	case "$ref":
		var target *schemaNode
		target, err = g.reference(v)
		n.here = append(n.here, target)
	case "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies":
		err = g.each(&n.here, pointer, v)
	case "not", "if", "then", "else":
		err = g.one(&n.here, pointer, v)
	case "properties", "prefixItems":
		err = g.each(&n.oneBelow, pointer, v)
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
		err = g.each(&n.below, pointer, v)
	case "items":
		if _, list := v.([]any); list {
			return g.each(&n.oneBelow, pointer, v)
		}
		err = g.one(&n.below, pointer, v)
	case "additionalProperties", "additionalItems", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema":
		err = g.one(&n.below, pointer, v)
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

// pattern adds a regular expression that is matched with the value, or with the names in it.
func (g *schemaGraph) pattern(n *schemaNode, expr string) error {
	instructions, err := regex.Count(expr, maxPatternBytes, maxPatternInstructions)
	if err != nil {
		return fmt.Errorf("its schema has the pattern %q: %s", plain.Line(expr, 40), plain.Line(err.Error(), 200))
	}
	n.matching += instructions
	if g.instructions += instructions; g.instructions > maxInstructions {
		return fmt.Errorf("the patterns of its schema compile to more than %d instructions", maxInstructions)
	}
	return nil
}

func (g *schemaGraph) one(to *[]*schemaNode, pointer string, v any) error {
	n, err := g.node(pointer, v)
	*to = append(*to, n)
	return err
}

// each adds the schemas in a map or a list of them.
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

// reference finds what a $ref names: a JSON pointer within the same schema, and nothing else.
func (g *schemaGraph) reference(v any) (*schemaNode, error) {
	ref, _ := v.(string)
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if !strings.HasPrefix(ref, "#") || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("its schema refers to %q; only references within it (#/...) are followed", plain.Line(ref, 80))
	}
	value := g.root
	canonical := ""
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch in := value.(type) {
		case map[string]any:
			value = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("its schema refers to %q, which is not there", plain.Line(ref, 80))
			}
			value, part = in[i], strconv.Itoa(i)
		default:
			value = nil
		}
		canonical += "/" + escapePointer(part)
	}
	if value == nil {
		return nil, fmt.Errorf("its schema refers to %q, which is not there", plain.Line(ref, 80))
	}
	return g.node(canonical, value)
}

func escapePointer(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// checkKeywords refuses what the weighing would not see through, and types that nobody knows.
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
			return fmt.Errorf("its schema has the type %q, which JSON Schema does not know", plain.Line(fmt.Sprint(n), 40))
		}
	}
	return nil
}

// checkCycles refuses a schema that comes back to itself on the same value.
func (n *schemaNode) checkCycles() error {
	switch {
	case n.acyclic:
		return nil
	case n.visiting:
		return errors.New("its schema refers to itself without end")
	}
	n.visiting = true
	for _, m := range n.here {
		if err := m.checkCycles(); err != nil {
			return err
		}
	}
	n.visiting, n.acyclic = false, true
	return nil
}
