package config

import (
	"reflect"
	"strings"
	"time"
)

// field is one scalar or list that the environment and the command line can set, in a section or at the top level.
type field struct {
	key   string // "runtime.max_steps"
	tag   reflect.StructTag
	value reflect.Value
}

// fields returns the fields of c in order. Tables below a section ([[mcp.servers]]) are left out.
func fields(c *Config) []field {
	var out []field
	sections := reflect.ValueOf(c).Elem()
	for i := range sections.NumField() {
		section := sections.Field(i)
		name := tomlName(sections.Type().Field(i))
		if sf := sections.Type().Field(i); !table(sf.Type) {
			out = append(out, field{key: name, tag: sf.Tag, value: section})
			continue
		}
		for j := range section.NumField() {
			sf := section.Type().Field(j)
			if !table(sf.Type) {
				out = append(out, field{key: name + "." + tomlName(sf), tag: sf.Tag, value: section.Field(j)})
			}
		}
	}
	return out
}

// Keys lists the dotted keys that the environment and the command line can set.
func Keys() []string {
	c := Default()
	all := fields(&c)
	keys := make([]string, len(all))
	for i, f := range all {
		keys[i] = f.key
	}
	return keys
}

func tomlName(f reflect.StructField) string { return f.Tag.Get("toml") }

// table reports whether TOML writes a type as one table or several.
func table(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Struct
	}
	return false
}

var durationType = reflect.TypeFor[time.Duration]()

// wants describes the values that a type accepts.
func wants(t reflect.Type) string {
	if t == durationType {
		return `a duration such as "15s" or "2m30s"`
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Pointer:
		return wants(t.Elem())
	case reflect.Slice:
		if table(t) {
			return "a list of tables, written [[...]]"
		}
		return "a list of strings"
	}
	return "a table"
}

// variable returns the name of a key's environment variable: EVERTURN_RUNTIME_MAX_STEPS.
func variable(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

const variablePrefix = "EVERTURN_"
