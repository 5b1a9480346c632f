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
	d := Default()
	root := describer{notes: notes(example)}.object("", reflect.ValueOf(d))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "agent.toml"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema holds what JSON cannot: " + err.Error())
	}
	return out
}

// describer generates schemas from Go values, which hold the defaults.
type describer struct{ notes map[string]string }

func (d describer) object(path string, v reflect.Value) map[string]any {
	properties := map[string]any{}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		properties[tomlName(sf)] = d.property(join(path, tomlName(sf)), sf.Tag, v.Field(i))
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func (d describer) property(path string, tag reflect.StructTag, v reflect.Value) map[string]any {
	s := d.shape(path, tag, v)
	if note := d.notes[path]; note != "" {
		s["description"] = note
	}
	if def, ok := plain(v); ok {
		s["default"] = def
	}
	return s
}

// shape returns the schema of a type, without description and default.
func (d describer) shape(path string, tag reflect.StructTag, v reflect.Value) map[string]any {
	t := v.Type()
	switch {
	case t == durationType:
		return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`}
	case t.Kind() == reflect.Pointer:
		return d.shape(path, tag, reflect.Zero(t.Elem()))
	case t.Kind() == reflect.Struct:
		return d.object(path, v)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": d.shape(path, tag, element(t))}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.shape(path+".*", tag, element(t))}
	case t.Kind() == reflect.String:
		return text(tag)
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return bounded("number", tag)
	}
	return bounded("integer", tag)
}

// element returns the defaults of an element of a list or a table.
func element(t reflect.Type) reflect.Value {
	if t.Elem() == serverType {
		return reflect.ValueOf(defaultServer())
	}
	return reflect.Zero(t.Elem())
}

func text(tag reflect.StructTag) map[string]any {
	s := map[string]any{"type": "string"}
	if list, ok := tag.Lookup("enum"); ok {
		s["enum"] = strings.Split(list, ",") // the empty value, if allowed, means that the key is left out
	}
	return s
}

func bounded(kind string, tag reflect.StructTag) map[string]any {
	s := map[string]any{"type": kind}
	if least, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil {
		s["minimum"] = least
	}
	return s
}

// notes reads the descriptions from the example: the comment above a setting, by dotted key, with * for a name that the
// operator chooses. A setting that is commented out has no space after its #.
func notes(text string) map[string]string {
	out := map[string]string{}
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
