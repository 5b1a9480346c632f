package config

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated files")

// TestGenerated checks that the files that Config describes are current. With -update it writes them.
func TestGenerated(t *testing.T) {
	d := readDocs(t)
	for path, text := range map[string]string{
		"example.toml": d.example(), "schema.json": d.jsonSchema(), "../docs/configuration.md": d.page(),
	} {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(got), "%s is stale: go generate ./config", path)
	}
}

// docs are the comments of Config's fields, by type and field: "Runtime.MaxSteps".
type docs map[string]string

func readDocs(t *testing.T) docs {
	d := docs{}
	own, err := filepath.Glob("*.go")
	require.NoError(t, err)
	domain, err := filepath.Glob("../workflows/turn/*.go")
	require.NoError(t, err)
	for _, path := range append(own, domain...) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if f.Tag == nil || !strings.Contains(f.Tag.Value, "toml:") {
						continue
					}
					require.NotEmpty(t, f.Doc.Text(), "%s.%s has no comment", spec.Name, f.Names[0])
					d[spec.Name.Name+"."+f.Names[0].Name] = strings.TrimSpace(f.Doc.Text())
				}
			}
			return false
		})
	}
	return d
}

// member is a field of a struct with its documentation.
type member struct {
	field
	doc string
}

func (d docs) members(v reflect.Value) (settings, tables []member) {
	names := goNames(v.Type())
	for i, f := range (field{value: v}).members() {
		m := member{f, d[names[i]]}
		if m.doc == "" {
			panic("no comment describes the setting " + f.name)
		}
		if table(f.value.Type()) {
			tables = append(tables, m)
		} else {
			settings = append(settings, m)
		}
	}
	return settings, tables
}

// goNames returns the names of a struct's settings in Go, in the order of field.members: "Runtime.MaxSteps", or that of
// an embedded struct.
func goNames(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("toml") == "" {
			continue
		}
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		names = append(names, owner.Name()+"."+f.Name)
	}
	return names
}

// section is a table of agent.toml. Those of a list or a map of tables are shown as an example.
type section struct {
	header, doc      string
	settings         []member
	entry, isExample bool // entry: the operator chooses the names
}

// sections returns the tables of a struct in the order of the file.
func (d docs) sections(name, header, doc string, isExample bool, v reflect.Value) []section {
	settings, tables := d.members(v)
	var out []section
	if len(settings) > 0 {
		out = append(out, section{header: header, doc: doc, settings: settings, isExample: isExample})
	}
	for _, m := range tables {
		at, t := join(name, m.name), m.value.Type()
		switch {
		case t.Kind() == reflect.Slice:
			out = append(out, d.sections(at, "[["+at+"]]", m.doc, true, newElement(t))...)
		case t.Kind() == reflect.Struct:
			out = append(out, d.sections(at, "["+at+"]", m.doc, isExample, m.value)...)
		case t.Elem().Kind() == reflect.Struct:
			at = join(at, m.tag.Get("example"))
			out = append(out, d.sections(at, "["+at+"]", m.doc, true, newElement(t))...)
		default:
			s := section{header: "[" + at + "]", doc: m.doc, entry: true, isExample: true}
			if key, value, ok := strings.Cut(m.tag.Get("example"), " = "); ok {
				s.settings = []member{{field: field{name: key, value: reflect.ValueOf(value)}}}
			}
			out = append(out, s)
		}
	}
	return out
}

func (d docs) all() []section { return d.sections("", "", "", false, reflect.ValueOf(Default())) }

const exampleHead = `agent.toml configures an agent of Everturn. This file lists every setting with its default; an empty file
means the same. Lines that begin with # and no space are settings without a default, and those that runtime.preset sets.

Environment variables (EVERTURN_<SECTION>_<KEY>, for instance EVERTURN_RUNTIME_MAX_STEPS) override this file, and the
command line (--set runtime.max_steps=3) overrides both. Strings may contain ${VAR}, which must be set,
${VAR:-default}, and, in secrets, ${file:/path}; $${ is a literal ${. Durations are strings such as "90s", "1m30s" or
"250ms".`

// example returns example.toml.
func (d docs) example() string {
	var b strings.Builder
	b.WriteString(hash(exampleHead) + "\n")
	for _, s := range d.all() {
		off := ""
		if s.isExample {
			off = "#"
		} else if s.header != "" {
			b.WriteByte('\n')
		}
		if s.header != "" {
			b.WriteString(hash(s.doc) + off + s.header + "\n")
		}
		for _, m := range s.settings {
			mark := off
			if m.tag.Get("example") != "" || m.tag.Get("preset") != "" {
				mark = "#"
			}
			b.WriteString(hash(m.doc) + mark + join("", m.name) + " = " + m.example() + "\n")
		}
	}
	return b.String()
}

// hash formats a text as comment lines.
func hash(text string) string {
	return string((&comment.Printer{TextPrefix: "# ", TextWidth: 118}).Text(new(comment.Parser).Parse(text)))
}

// example returns the value that the example shows, as TOML: that of the tag, or the default.
func (m member) example() string {
	v := m.value
	if text, ok := m.tag.Lookup("example"); ok {
		v = reflect.New(v.Type()).Elem()
		if err := parseInto(v, text); err != nil {
			panic(err)
		}
	}
	if v.Type() == secretType {
		return quoted(string(v.Interface().(Secret)))
	}
	p, _ := plain(v)
	switch p := p.(type) {
	case string:
		return quoted(p)
	case []any:
		return listed(p)
	case float64:
		if text := strconv.FormatFloat(p, 'f', -1, 64); strings.Contains(text, ".") {
			return text
		}
		return strconv.FormatFloat(p, 'f', 1, 64)
	}
	return fmt.Sprint(p)
}

func quoted(s string) string {
	if strings.Contains(s, `\`) {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}

// listed formats a list, on several lines if it is long.
func listed(items []any) string {
	var one, more, line string
	for i, item := range items {
		q := quoted(item.(string))
		one += q
		if i < len(items)-1 {
			one += ", "
		}
		if len(line)+len(q) > 112 {
			more, line = more+" "+line+"\n", ""
		}
		line += " " + q + ","
	}
	if len(one) < 100 {
		return "[" + one + "]"
	}
	return "[\n" + more + " " + line + "\n]"
}

// pageHead has ~ for the backquotes of Markdown.
const pageHead = `# Configuration

This page is generated from the package config: change the comments there, then run ~go generate ./config~.

Everturn reads ~agent.toml~ in the working folder, or the file that ~--config~ names. ~everturn init --write~ writes one
with every setting and its default. ~everturn config show --origin~ prints the values in effect and where each comes
from; ~everturn config schema~ prints a JSON schema for editors. The command line uses a file that it finds in the working
folder only if you trust it: see [security.md](security.md#an-agenttoml-that-came-with-a-folder).

Later sources override earlier ones: the defaults, the file, the environment (~EVERTURN_<SECTION>_<KEY>~, for instance
~EVERTURN_RUNTIME_MAX_STEPS~) and the command line (~--set runtime.max_steps=3~). Lists are separated by commas there.
~OPENAI_API_KEY~ and ~OPENAI_BASE_URL~ apply only to what neither the file nor a variable of Everturn sets.

Strings in the file may contain ~${VAR}~, which must be set, ~${VAR:-default}~ and, in secrets, ~${file:/path}~; ~$${~
is a literal ~${~. Durations are strings such as ~"90s"~, ~"1m30s"~ or ~"250ms"~. Unknown keys, values of a wrong type
and contradictions are errors: a command lists all of them at once, with their lines, and exits with 3.

## The ten that everybody needs
`

// essential are the keys that docs/configuration.md begins with.
var essential = []string{"llm.provider", "llm.model", "llm.api_key", "llm.base_url", "runtime.system_prompt",
	"runtime.workspace", "runtime.preset", "runtime.max_cost_usd", "policy.ask_risk", "mcp.servers"}

// essentials returns the table of the essential settings, with the first sentence of each comment.
func (d docs) essentials() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, key := range essential {
		section, name, _ := strings.Cut(key, ".")
		of, _ := field{value: reflect.ValueOf(Default())}.member(section)
		settings, tables := d.members(of.value)
		all := append(settings, tables...)
		m := all[slices.IndexFunc(all, func(m member) bool { return m.name == name })]
		short, _, _ := strings.Cut(strings.Join(strings.Fields(m.doc), " "), ". ")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, m.standard(), markdown(strings.TrimSuffix(short, ".")+"."))
	}
	return b.String()
}

const tableHead = "\n| key | default | meaning |\n|---|---|---|\n"

// page returns docs/configuration.md.
func (d docs) page() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(pageHead, "~", "`") + d.essentials())
	for _, s := range d.all() {
		if s.header != "" {
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", s.header, markdown(s.doc))
		}
		if s.entry {
			continue
		}
		b.WriteString(tableHead)
		for _, m := range s.settings {
			doc := strings.TrimSpace(m.doc + m.limits())
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, m.standard(), markdown(doc))
		}
	}
	return b.String()
}

// standard returns the default for a table of the page; a long one is only named.
func (m member) standard() string {
	def, ok := plain(m.value)
	if !ok || m.value.IsZero() {
		return ""
	}
	value := "`" + (member{field: field{value: reflect.ValueOf(def)}}).example() + "`"
	if len(value) > 150 {
		return "see `everturn init`"
	}
	return value
}

// limits describes the tags min and max.
func (m member) limits() string {
	least, most := m.tag.Get("min"), m.tag.Get("max")
	switch {
	case most != "" && least != "" && m.value.Type() != durationType:
		return fmt.Sprintf(" From %s to %s.", least, most)
	case most != "":
		return " At most " + most + "."
	case least != "" && strings.Trim(least, "0s") != "":
		return " At least " + least + "."
	}
	return ""
}

func markdown(text string) string {
	return strings.NewReplacer("\n\n", " ", "\n", " ", "*", `\*`, "<", `\<`, "|", `\|`, "[", `\[`).Replace(text)
}

// jsonSchema returns schema.json.
func (d docs) jsonSchema() string {
	root := d.object(reflect.ValueOf(Default()))
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "agent.toml"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(out) + "\n"
}

func (d docs) object(v reflect.Value) map[string]any {
	properties := map[string]any{}
	settings, tables := d.members(v)
	for _, m := range append(settings, tables...) {
		s := d.schema(m.field)
		s["description"] = strings.Join(strings.Fields(m.doc), " ")
		if def, ok := plain(m.value); ok {
			s["default"] = def
		}
		properties[m.name] = s
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// schema returns the schema of a field whose value is the default, without description and default.
func (d docs) schema(f field) map[string]any {
	t := f.value.Type()
	switch {
	case t == durationType:
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`}
	case t.Kind() == reflect.Pointer:
		f.value = reflect.Zero(t.Elem())
		return d.schema(f)
	case t.Kind() == reflect.Struct:
		return d.object(f.value)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(field{value: newElement(t), tag: f.tag})}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.schema(field{value: newElement(t)})}
	}
	names := map[reflect.Kind]string{reflect.Bool: "boolean", reflect.String: "string", reflect.Float64: "number"}
	s := map[string]any{"type": cmp.Or(names[t.Kind()], "integer")}
	if list, ok := f.tag.Lookup("enum"); ok {
		s["enum"] = strings.Split(list, ",") // the empty value, if allowed, means that the key is left out
	}
	for tag, keyword := range map[string]string{"min": "minimum", "max": "maximum"} {
		if n, err := strconv.ParseFloat(f.tag.Get(tag), 64); err == nil {
			s[keyword] = n
		}
	}
	return s
}
