package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Schema returns the JSON schema (draft 2020-12) of agent.toml, for editors. Its descriptions are the comments of
// Example, so that each is written once.
func Schema() []byte {
	root := describe(example).object(field{value: reflect.ValueOf(Default())})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "agent.toml"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema holds what JSON cannot: " + err.Error())
	}
	return out
}

// descriptions are those of tables and settings by dotted key, with * for a name that the operator chooses.
type descriptions map[string]string

func (d descriptions) object(f field) map[string]any {
	properties := map[string]any{}
	for _, m := range f.members() {
		s := d.schema(m)
		if text := d[m.key]; text != "" {
			s["description"] = text
		}
		if def, ok := plain(m.value); ok {
			s["default"] = def
		}
		properties[m.name] = s
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// schema returns the schema of a field whose value is the default, without description and default.
func (d descriptions) schema(f field) map[string]any {
	t := f.value.Type()
	switch {
	case t == durationType:
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`}
	case t.Kind() == reflect.Pointer:
		f.value = reflect.Zero(t.Elem())
		return d.schema(f)
	case t.Kind() == reflect.Struct:
		return d.object(f)
	case t.Kind() == reflect.Slice:
		f.value = defaultElement(t)
		return map[string]any{"type": "array", "items": d.schema(f)}
	case t.Kind() == reflect.Map:
		f.key, f.value = f.key+".*", reflect.Zero(t.Elem())
		return map[string]any{"type": "object", "additionalProperties": d.schema(f)}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	s := map[string]any{"type": map[reflect.Kind]string{reflect.String: "string", reflect.Float64: "number"}[t.Kind()]}
	if s["type"] == "" {
		s["type"] = "integer"
	}
	if list, ok := f.tag.Lookup("enum"); ok {
		s["enum"] = strings.Split(list, ",") // the empty value, if allowed, means that the key is left out
	}
	if least, err := strconv.ParseFloat(f.tag.Get("min"), 64); err == nil {
		s["minimum"] = least
	}
	return s
}

// describe reads the descriptions from the example: the comment above a table or a setting. A setting that is commented
// out has no space after its #.
func describe(text string) descriptions {
	out := descriptions{}
	section, pending := "", []string{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			pending = append(pending, comment)
			continue
		}
		line = strings.TrimPrefix(line, "#")
		key := section
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			key = strings.TrimSuffix(section, ".list_directory")
			section = strings.Replace(section, ".list_directory", ".*", 1)
		} else if name, _, ok := strings.Cut(line, " = "); ok && bare(name) {
			key = join(section, name)
		}
		if len(pending) > 0 && line != "" {
			out[key] = strings.Join(pending, " ")
		}
		pending = pending[:0]
	}
	return out
}
