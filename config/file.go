package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// DefaultPath is the file that Load reads if no path is given.
const DefaultPath = "agent.toml"

// maxFileBytes bounds agent.toml.
const maxFileBytes = 1 << 20

// applyFile applies the layer of a file, unless it is empty. Its error means that loading cannot continue.
func (l *loader) applyFile(path string, data []byte) error {
	l.loaded.Config.addSource(path)
	if len(data) == 0 {
		return nil
	}
	l.loaded.Path = path
	var document map[string]any
	if err := toml.Unmarshal(data, &document); err != nil {
		p := Problem{Source: l.loaded.Path, Message: "not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
		if d := (*toml.DecodeError)(nil); errors.As(err, &d) {
			p.Line, p.Column = d.Position()
		}
		return &Error{Problems: []Problem{p}}
	}
	l.loaded.places = findPlaces(data)
	l.assign(field{value: reflect.ValueOf(&l.loaded.Config).Elem()}, document)
	return nil
}

// ReadFile returns the content of a configuration file. The path "" means DefaultPath, which may be missing: then the
// content is nil.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(cmp.Or(path, DefaultPath))
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	if len(data) > maxFileBytes {
		return nil, unreadable(path, fmt.Sprintf("the file is larger than %d bytes; is it an agent.toml?", maxFileBytes))
	}
	return append([]byte{}, data...), nil
}

func unreadable(path, why string) error {
	return &Error{Problems: []Problem{{Source: cmp.Or(path, DefaultPath), Message: "reading the configuration: " + why}}}
}

// assign stores a value of the decoded document in a field. go-toml's strict decoder into Config would stop at the
// first value of a wrong type, name Go's types in its errors, and know neither durations nor ${} nor the keys'
// positions.
func (l *loader) assign(f field, v any) {
	switch v := v.(type) {
	case map[string]any:
		l.assignTable(f, v)
	case []any:
		if f.value.Kind() != reflect.Slice {
			l.mismatch(f, v)
			return
		}
		f.value.SetZero()
		for i, item := range v {
			f.value.Set(reflect.Append(f.value, newElement(f.value.Type())))
			if l.assign(f.element(i), item); len(l.problems) >= maxProblems {
				return
			}
		}
	default:
		l.assignScalar(f, v)
	}
}

// assignTable stores a table, its keys in the order of the file.
func (l *loader) assignTable(f field, table map[string]any) {
	kind := f.value.Kind()
	if kind != reflect.Struct && kind != reflect.Map {
		l.mismatch(f, table)
		return
	}
	if kind == reflect.Map {
		f.value.Set(reflect.MakeMap(f.value.Type()))
	}
	at := func(name string) int { return l.loaded.places.key[join(f.key, name)] }
	for _, name := range slices.SortedFunc(maps.Keys(table), func(a, b string) int { return cmp.Compare(at(a), at(b)) }) {
		if kind == reflect.Map {
			entry := field{key: join(f.key, name), name: name, value: newElement(f.value.Type())}
			l.assign(entry, table[name])
			f.value.SetMapIndex(reflect.ValueOf(name), entry.value)
		} else if m, ok := f.member(name); ok {
			l.assign(m, table[name])
		} else {
			l.addAt(join(f.key, name), at(name), unknownKey(f, name))
		}
		if len(l.problems) >= maxProblems {
			return
		}
	}
}

// assignScalar stores a string, a number, true or false.
func (l *loader) assignScalar(f field, v any) {
	t := f.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fits := false
	switch v.(type) {
	case string:
		fits = t.Kind() == reflect.String || t == durationType
	case bool:
		fits = t.Kind() == reflect.Bool
	case int64:
		fits = t != durationType && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64)
	case float64:
		fits = t.Kind() == reflect.Float64
	}
	text := fmt.Sprint(v)
	if _, isString := v.(string); isString && fits {
		var resolved bool
		if text, resolved = l.interpolate(f, text); !resolved {
			return
		}
	}
	if !fits || parseInto(f.value, text) != nil {
		if fits && t == durationType {
			l.refuse(f, quote(text))
			return
		}
		l.mismatch(f, v)
	}
}

// mismatch reports a value that does not fit its field.
func (l *loader) mismatch(f field, v any) { l.refuse(f, kindOf(v)) }

// refuse reports a value by its description, which leaves out its content if it may be a secret.
func (l *loader) refuse(f field, is string) {
	l.addAt(f.key, l.loaded.places.offset(f.key), fmt.Sprintf("%s is %s; it must be %s", f.key, is, f.wants()))
}

// addAt adds a problem at an offset of the file.
func (l *loader) addAt(key string, offset int, message string) {
	p := Problem{Key: key, Source: l.loaded.Path, Message: message}
	p.Line, p.Column = l.loaded.places.position(offset)
	l.add(p)
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}
