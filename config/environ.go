package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/nearest"
)

// borrowed are other programs' variables, by the key that they set if the file does not.
var borrowed = map[string]string{"llm.api_key": "OPENAI_API_KEY", "llm.base_url": "OPENAI_BASE_URL"}

// environment converts the result of os.Environ to a map. The last value of a name wins.
func environment(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// borrowed sets keys from other programs' variables if the file does not set them.
func (l *loader) borrowed() {
	for _, f := range fields(&l.loaded.Config) {
		name := borrowed[f.key]
		if value := l.env[name]; name != "" && value != "" && !l.written(f.key) {
			l.set(f, value, Origin{Layer: LayerEnvironment, Name: name})
		}
	}
}

// written reports whether the file, or Everturn's own variable for it, sets a key.
func (l *loader) written(key string) bool {
	_, file := l.loaded.origins[key]
	return file || l.env[variable(key)] != ""
}

// environ applies the EVERTURN_ variables. An empty variable counts as unset.
func (l *loader) environ() {
	all := fields(&l.loaded.Config)
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = variable(f.key)
		if value := l.env[names[i]]; value != "" {
			l.set(f, value, Origin{Layer: LayerEnvironment, Name: names[i]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if section(name) && !slices.Contains(names, name) {
			l.add(Problem{Source: "environment " + name, Message: unknownVariable(name, names)})
		}
	}
}

// section reports whether a variable names a section of Config. Other EVERTURN_ variables are ignored.
func section(name string) bool {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		if strings.HasPrefix(name, variable(tomlName(t.Field(i)))+"_") {
			return true
		}
	}
	return false
}

func unknownVariable(name string, names []string) string {
	const message = "no key of agent.toml has this variable"
	if best := nearest.Name(name, names); best != "" {
		return message + "; did you mean " + best + "?"
	}
	return message
}

// flags applies the overrides of the command line.
func (l *loader) flags(overrides map[string]string) {
	all := fields(&l.loaded.Config)
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		o := Origin{Layer: LayerFlag, Name: key}
		i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
		if i < 0 {
			message := fmt.Sprintf("unknown key %s", quote(key))
			if best := nearest.Name(key, Keys()); best != "" {
				message += "; did you mean " + best + "?"
			}
			l.add(Problem{Key: key, Source: "command line", Message: message})
			continue
		}
		l.set(all[i], overrides[key], o)
	}
}

// set parses a value of the environment or the command line into a field.
func (l *loader) set(f field, value string, o Origin) {
	if err := parseInto(f.value, value); err != nil {
		shown := quote(value)
		if f.value.Type() == secretType {
			shown = "a secret"
		}
		l.add(Problem{Key: f.key, Source: o.String(),
			Message: fmt.Sprintf("%s is %s; it must be %s", f.key, shown, wants(f.value.Type()))})
	}
	l.loaded.origins[f.key] = o
	delete(l.loaded.written, f.key)
}

// parseInto sets v from text, or leaves v unchanged and returns an error; lists are separated by commas.
func parseInto(v reflect.Value, text string) error {
	parsed, err := parsed(v.Type(), text)
	if err == nil {
		v.Set(reflect.ValueOf(parsed).Convert(v.Type()))
	}
	return err
}

func parsed(t reflect.Type, text string) (any, error) {
	if t == durationType {
		return time.ParseDuration(text)
	}
	switch t.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Int, reflect.Int64:
		return strconv.ParseInt(text, 10, 64)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			err = strconv.ErrRange
		}
		return x, err
	case reflect.Pointer:
		inner := reflect.New(t.Elem())
		return inner.Interface(), parseInto(inner.Elem(), text)
	case reflect.Slice:
		items := reflect.Zero(t)
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = reflect.Append(items, reflect.ValueOf(item).Convert(t.Elem()))
			}
		}
		return items.Interface(), nil
	}
	return text, nil
}
