package docs

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

var update = flag.Bool("update", false, "write the generated files")

// TestGenerated checks that the files that turn.EventTypes describes are current. With -update it writes them.
func TestGenerated(t *testing.T) {
	s := readSource(t)
	for path, text := range map[string]string{"events.schema.json": s.schema(t), "events.md": s.page(t)} {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(got), "%s is stale: go generate ./docs", path)
	}
}

// TestEachKindIsInTheTable compares the constants of kinds with the table.
func TestEachKindIsInTheTable(t *testing.T) {
	var kinds []string
	for _, e := range turn.EventTypes() {
		kinds = append(kinds, string(e.Kind))
	}
	assert.Equal(t, readSource(t).enums["turn.EventKind"], kinds)
}

// source is what the Go source says about the types of events.
type source struct {
	comments map[string]string   // of structs, and of their fields by type and field: "CallEvent.Tool"
	enums    map[string][]string // the constants of each type of strings
	defs     []reflect.Type      // the structs in the order in which events name them
}

// open are types of strings to which versions add values, or whose values come from elsewhere.
var open = []string{"Code", "FinishReason", "EventKind"}

func readSource(t *testing.T) *source {
	s := &source{comments: map[string]string{}, enums: map[string][]string{}}
	for _, dir := range []string{"../workflows/turn", "../workflows/plan"} {
		paths, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, d := range file.Decls {
				if d, ok := d.(*ast.GenDecl); ok && !strings.HasSuffix(path, "_test.go") {
					s.read(file.Name.Name, d)
				}
			}
		}
	}
	return s
}

// read reads a declaration of types or constants.
func (s *source) read(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			kind, isNamed := spec.Type.(*ast.Ident)
			for _, v := range spec.Values {
				value, isLiteral := v.(*ast.BasicLit)
				if d.Tok != token.CONST || !isNamed || !isLiteral || value.Kind != token.STRING {
					continue
				}
				if text, err := strconv.Unquote(value.Value); err == nil && text != "" {
					s.enums[pkg+"."+kind.Name] = append(s.enums[pkg+"."+kind.Name], text)
				}
			}
		case *ast.TypeSpec:
			name := pkg + "." + spec.Name.Name
			s.comments[name] = line(d.Doc.Text())
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					s.comments[name+"."+n.Name] = sentence(line(f.Doc.Text()+" "+f.Comment.Text()), n.Name)
				}
			}
		}
	}
}

func line(text string) string { return strings.Join(strings.Fields(text), " ") }

// sentence returns a comment without the name of its Go field at the beginning, as a sentence.
func sentence(text, field string) string {
	for _, verb := range []string{" is ", " are "} {
		text = strings.TrimPrefix(text, field+verb)
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// member is a field of a struct in JSON.
type member struct {
	name, doc string
	required  bool
	kind      reflect.Type
}

// members returns the fields of a struct, with those of embedded structs.
func (s *source) members(t reflect.Type) (list []member) {
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			list = append(list, s.members(f.Type)...)
		case f.IsExported() && name != "-":
			list = append(list, member{name, s.comments[t.String()+"."+f.Name], options == "", f.Type})
		}
	}
	return list
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

type object = map[string]any

// typeOf returns the schema of a type. It adds structs to s.defs.
func (s *source) typeOf(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[turn.USD]():
		return object{"type": "number"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.typeOf(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.typeOf(t.Elem())}
	case reflect.Struct:
		if !slices.Contains(s.defs, t) {
			s.defs = append(s.defs, t)
		}
		return object{"$ref": "#/$defs/" + nameOf(t)}
	case reflect.String:
		if list := s.enums[t.String()]; list != nil && !slices.Contains(open, t.Name()) {
			return object{"enum": list}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	}
	panic("events have no schema for " + t.String())
}

// nameOf returns the name of a struct in the schema: PlanProgress for plan.Progress.
func nameOf(t reflect.Type) string {
	if strings.HasPrefix(t.String(), "plan.") {
		return "Plan" + t.Name()
	}
	return t.Name()
}

// structOf returns the schema of a struct.
func (s *source) structOf(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, m := range s.members(t) {
		p := s.typeOf(m.kind)
		if m.doc != "" {
			p["description"] = m.doc
		}
		properties[m.name] = p
		if m.required {
			required = append(required, m.name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// schema returns events.schema.json.
func (s *source) schema(t *testing.T) string {
	root := s.structOf(reflect.TypeFor[turn.Event]())
	properties := root["properties"].(object)
	properties["v"] = object{"const": 1, "description": "The version of this format. It grows within a version; what is taken away makes a new one."}
	for name, limits := range map[string]object{"index": {"minimum": 0}, "step": {"minimum": 0}, "turn": {"minLength": 1},
		"kind": {"minLength": 1}, "attempt": {"minimum": 1}} {
		for k, v := range limits {
			properties[name].(object)[k] = v
		}
	}
	properties["data"].(object)["type"] = "object"
	properties["at"].(object)["pattern"] = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)$"
	root["required"] = append([]string{"v"}, root["required"].([]string)...)
	root["$schema"], root["$id"] = "https://json-schema.org/draft/2020-12/schema", "https://everturn.dev/schema/events-1.json"
	root["title"] = "An event of -o jsonl"
	root["description"] = "One line of `everturn run -o jsonl` or `everturn attach -o jsonl`: an event of a turn's output. " +
		"Events of a turn are numbered from 0 without gaps; a stream that was not left ends with turn_completed. " +
		"Readers leave out kinds and fields that they do not know."
	var kinds []object
	for _, e := range turn.EventTypes() {
		then, required := object{"description": e.Doc}, []string{}
		if e.HasText {
			required = append(required, "text")
		}
		if e.Data != nil {
			required = append(required, "data")
			then["properties"] = object{"data": s.typeOf(reflect.TypeOf(e.Data))}
		}
		if len(required) > 0 {
			then["required"] = required
		}
		kinds = append(kinds, object{"if": object{"properties": object{"kind": object{"const": e.Kind}}}, "then": then})
	}
	root["allOf"] = kinds
	defs := object{}
	for i := 0; i < len(s.defs); i++ { // structOf may append
		def := s.structOf(s.defs[i])
		def["description"] = s.comments[s.defs[i].String()]
		defs[nameOf(s.defs[i])] = def
	}
	root["$defs"] = defs
	out, err := json.MarshalIndent(root, "", "  ")
	require.NoError(t, err)
	return string(out) + "\n"
}

// pageHead has ~ for the backquotes of Markdown.
const pageHead = `# Events

This page and [events.schema.json](events.schema.json) are generated from the table in ~workflows/turn/eventtypes.go~: change
it and the comments there, then run ~go generate ./docs~.

A turn's events are numbered from 0 without gaps. ~client.Follow~, ~engine.WithSink~, ~run -o jsonl~ and ~attach -o jsonl~
read them from the journal. Readers leave out kinds and fields that they do not know. The trace of a turn is in
~turn_started~; a sink gets its ID with every event (~engine.Event.TraceID~).

## Kinds

| kind | data | meaning |
|---|---|---|
`

// page returns events.md.
func (s *source) page(t *testing.T) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(pageHead, "~", "`"))
	for _, e := range turn.EventTypes() {
		require.NotEmpty(t, e.Doc, e.Kind)
		data := ""
		if e.Data != nil {
			data = reference(reflect.TypeOf(e.Data))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Kind, data, markdown(e.Doc))
	}
	for i, def := range append([]reflect.Type{reflect.TypeFor[turn.Event]()}, s.defs...) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", nameOf(def),
			markdown(s.comments[def.String()]))
		for _, m := range s.members(def) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, s.describe(m.kind), markdown(m.doc))
		}
		if i == 0 {
			b.WriteString("\nWith `-o jsonl` an event also has `v`, the version of the format: 1.\n")
		}
	}
	return b.String()
}

// reference returns a link to the section of a struct.
func reference(t reflect.Type) string {
	return fmt.Sprintf("[%s](#%s)", nameOf(t), strings.ToLower(nameOf(t)))
}

// describe returns the type of a field for the page.
func (s *source) describe(t reflect.Type) string {
	schema := s.typeOf(t)
	switch list, isEnum := schema["enum"].([]string); {
	case isEnum:
		return "`" + strings.Join(list, "`, `") + "`"
	case t.Kind() == reflect.Slice && schema["items"] != nil:
		return "list of " + s.describe(t.Elem())
	case schema["$ref"] != nil:
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return reference(t)
	case schema["format"] != nil:
		return "time"
	case schema["type"] == nil:
		return "JSON"
	}
	return schema["type"].(string)
}

func markdown(text string) string {
	return strings.NewReplacer("*", `\*`, "<", `\<`, "|", `\|`, "[", `\[`).Replace(text)
}
