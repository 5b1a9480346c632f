package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decode stores the file's tree in the configuration.
func (l *loader) decode(tree map[string]any) {
	l.structure("", tree, reflect.ValueOf(&l.loaded.Config).Elem())
}

// structure stores a table in a struct and reports keys that the struct does not have.
func (l *loader) structure(path string, tree map[string]any, v reflect.Value) {
	byName, enums := map[string]reflect.Value{}, map[string]string{}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		byName[tomlName(sf)], enums[tomlName(sf)] = v.Field(i), sf.Tag.Get("enum")
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if len(l.problems) >= maxProblems {
			return
		}
		key := join(path, name)
		f, known := byName[name]
		if !known {
			l.add(l.at(key, false, unknownKey(path, name, slices.Sorted(maps.Keys(byName)))))
			continue
		}
		if _, text := tree[name].(string); enums[name] != "" && !text {
			l.add(l.at(key, true, fmt.Sprintf("%s is %s; it must be a string, %s", key, kindOf(tree[name]), oneOf(strings.Split(enums[name], ",")))))
			continue
		}
		l.value(key, tree[name], f)
		if !table(f.Type()) {
			l.fromFile(key)
		}
	}
}

// fromFile records that a key's value comes from the file.
func (l *loader) fromFile(key string) {
	l.loaded.origins[key] = Origin{Layer: LayerFile, Name: l.loaded.Path, Line: l.places.of(key, false).line}
}

// value stores one value in a field.
func (l *loader) value(key string, raw any, f reflect.Value) {
	ok := true
	switch {
	case f.Type() == durationType || f.Kind() == reflect.String:
		ok = l.text(key, raw, f)
	case f.Kind() == reflect.Pointer:
		inner := reflect.New(f.Type().Elem())
		l.value(key, raw, inner.Elem())
		f.Set(inner)
	case f.Kind() == reflect.Slice:
		ok = l.list(key, raw, f)
	case f.Kind() == reflect.Map:
		ok = l.mapping(key, raw, f)
	case f.Kind() == reflect.Struct:
		var tree map[string]any
		if tree, ok = raw.(map[string]any); ok {
			l.structure(key, tree, f)
		}
	default:
		ok = scalar(raw, f)
	}
	if !ok {
		l.add(l.at(key, true, fmt.Sprintf("%s is %s; it must be %s", key, kindOf(raw), wants(f.Type()))))
	}
}

// scalar sets a number or a bool. It accepts an integer for a float.
func scalar(raw any, f reflect.Value) bool {
	switch x := raw.(type) {
	case bool:
		if f.Kind() != reflect.Bool {
			return false
		}
		f.SetBool(x)
	case int64:
		switch f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(x)
		case reflect.Float64:
			f.SetFloat(float64(x))
		default:
			return false
		}
	case float64:
		if f.Kind() != reflect.Float64 || math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
		f.SetFloat(x)
	default:
		return false
	}
	return true
}

// text sets a string or a duration, after interpolation.
func (l *loader) text(key string, raw any, f reflect.Value) bool {
	s, ok := raw.(string)
	if !ok {
		return false
	}
	s, ok = l.interpolate(key, s, f.Type() == secretType)
	if !ok {
		return true
	}
	if f.Type() != durationType {
		f.SetString(s)
		return true
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		l.add(l.at(key, true, badDuration(key, s)))
		return true
	}
	f.SetInt(int64(d))
	return true
}

func badDuration(key, s string) string {
	return fmt.Sprintf("%s is %s; it must be %s", key, quote(s), wants(durationType))
}

// list sets a slice; an empty list becomes nil, as in Default.
func (l *loader) list(key string, raw any, f reflect.Value) bool {
	items, ok := raw.([]any)
	if !ok {
		return false
	}
	out := reflect.MakeSlice(f.Type(), len(items), len(items))
	for i, item := range items {
		if len(l.problems) >= maxProblems {
			break
		}
		if out.Index(i).Type() == serverType {
			out.Index(i).Set(reflect.ValueOf(defaultServer()))
		}
		l.value(fmt.Sprintf("%s[%d]", key, i), item, out.Index(i))
	}
	if len(items) == 0 {
		out = reflect.Zero(f.Type())
	}
	f.Set(out)
	return true
}

// mapping sets a table whose keys the operator chose.
func (l *loader) mapping(key string, raw any, f reflect.Value) bool {
	tree, ok := raw.(map[string]any)
	if !ok {
		return false
	}
	out := reflect.MakeMap(f.Type())
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if len(l.problems) >= maxProblems {
			break
		}
		element := reflect.New(f.Type().Elem()).Elem()
		l.value(join(key, name), tree[name], element)
		if !table(element.Type()) {
			l.fromFile(join(key, name))
		}
		out.SetMapIndex(reflect.ValueOf(name), element)
	}
	f.Set(out)
	return true
}

var (
	secretType = reflect.TypeFor[Secret]()
	serverType = reflect.TypeFor[MCPServer]()
)

// kindOf describes the type of a TOML value, without the value itself, which may be a secret.
func kindOf(raw any) string {
	switch raw.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}
