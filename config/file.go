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

// applyFile parses data, the content of the file at path, and stores its values in the configuration. Empty data means
// that there is no file, and only its path is recorded as a source. applyFile returns an error only if data is not
// valid TOML; wrong keys and values become problems.
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
// content is nil. The error, also for a file larger than 1 MiB, is an *Error.
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
	return append([]byte{}, data...), nil // not nil, even if the file is empty
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
		f.value.SetZero() // the list replaces its default
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

// assignTable stores a TOML table in a struct or a map. It takes the keys in the order of the file, so that the
// problems have that order too.
func (l *loader) assignTable(f field, table map[string]any) {
	kind := f.value.Kind()
	if kind != reflect.Struct && kind != reflect.Map {
		l.mismatch(f, table)
		return
	}
	if kind == reflect.Map {
		f.value.Set(reflect.MakeMap(f.value.Type()))
	}
	offset := func(name string) int { return l.loaded.places.key[join(f.key, name)] }
	byOffset := func(a, b string) int { return cmp.Compare(offset(a), offset(b)) }
	for _, name := range slices.SortedFunc(maps.Keys(table), byOffset) {
		if kind == reflect.Map {
			// Go cannot assign to a part of a map's entry, so the entry is filled before it is stored.
			entry := field{key: join(f.key, name), name: name, value: newElement(f.value.Type())}
			l.assign(entry, table[name])
			f.value.SetMapIndex(reflect.ValueOf(name), entry.value)
		} else if m, ok := f.member(name); ok {
			l.assign(m, table[name])
		} else {
			l.addAt(join(f.key, name), offset(name), unknownKey(f, name))
		}
		if len(l.problems) >= maxProblems {
			return
		}
	}
}

// assignScalar stores a string, a number or a boolean, or reports that it does not fit the field. It first resolves the
// references (${VAR}) in a string; if interpolate returns false, the field keeps its value.
func (l *loader) assignScalar(f field, v any) {
	t := f.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fits := false // whether the field accepts a value of v's TOML type
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
		if fits && t == durationType { // a string, but no duration; it is no secret
			l.refuse(f, quote(text))
			return
		}
		l.mismatch(f, v)
	}
}

// mismatch reports a value that does not fit its field.
func (l *loader) mismatch(f field, v any) { l.refuse(f, kindOf(v)) }

// refuse reports that a field does not accept its value. description stands for the value in the message: it must not
// contain a value that may be a secret.
func (l *loader) refuse(f field, description string) {
	message := fmt.Sprintf("%s is %s; it must be %s", f.key, description, f.accepted())
	l.addAt(f.key, l.loaded.places.offset(f.key), message)
}

// addAt adds a problem at a byte offset of the file.
func (l *loader) addAt(key string, offset int, message string) {
	p := Problem{Key: key, Source: l.loaded.Path, Message: message}
	p.Line, p.Column = l.loaded.places.position(offset)
	l.add(p)
}

// kindOf describes the TOML type of a decoded value.
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
