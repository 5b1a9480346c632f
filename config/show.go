package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	plainly "github.com/everturn/everturn/internal/plain"
)

// Show writes the effective configuration as TOML. A secret is shown as "set" or "unset", and a value written with ${}
// is shown as written, because the environment may hold secrets. With origin, a comment gives the source of each value.
func (l *Loaded) Show(w io.Writer, origin bool) error {
	s := &shower{loaded: l, origin: origin}
	config := reflect.ValueOf(l.Config)
	for i := range config.NumField() {
		sf := config.Type().Field(i)
		if !table(sf.Type) {
			s.setting(tomlName(sf), tomlName(sf), config.Field(i))
			continue
		}
		s.table(tomlName(sf), config.Field(i))
	}
	if _, err := io.WriteString(w, strings.TrimPrefix(s.out.String(), "\n")); err != nil {
		return fmt.Errorf("showing the configuration: %w", err)
	}
	return nil
}

type shower struct {
	loaded *Loaded
	origin bool
	out    strings.Builder
}

// table writes a section: its values first, then its tables, as TOML requires.
func (s *shower) table(key string, v reflect.Value) {
	if key != "mcp" {
		fmt.Fprintf(&s.out, "\n[%s]\n", key)
	}
	s.members(key, key, v)
}

// members writes a struct's fields. header is the table's name in TOML, key the dotted key with indexes.
func (s *shower) members(header, key string, v reflect.Value) {
	for i := range v.NumField() {
		if sf := v.Type().Field(i); !table(sf.Type) {
			s.setting(join(key, tomlName(sf)), tomlName(sf), v.Field(i))
		}
	}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if !table(sf.Type) {
			continue
		}
		inner, innerKey := join(header, tomlName(sf)), join(key, tomlName(sf))
		switch f := v.Field(i); f.Kind() {
		case reflect.Slice:
			for j := range f.Len() {
				fmt.Fprintf(&s.out, "\n[[%s]]\n", inner)
				s.members(inner, fmt.Sprintf("%s[%d]", innerKey, j), f.Index(j))
			}
		case reflect.Map:
			s.mapping(inner, innerKey, f)
		}
	}
}

// mapping writes a table whose keys the operator chose: of secrets, or of tables.
func (s *shower) mapping(header, key string, m reflect.Value) {
	if m.Len() == 0 {
		return
	}
	structs := m.Type().Elem().Kind() == reflect.Struct
	if !structs {
		fmt.Fprintf(&s.out, "\n[%s]\n", header)
	}
	for _, name := range sortedKeys(m) {
		element := m.MapIndex(reflect.ValueOf(name))
		if structs {
			fmt.Fprintf(&s.out, "\n[%s]\n", join(header, name))
			s.members(join(header, name), join(key, name), element)
			continue
		}
		s.setting(join(key, name), join("", name), element)
	}
}

func (s *shower) setting(key, name string, v reflect.Value) {
	value, ok := s.value(key, v)
	if !ok {
		value, name = "(the provider's own)", "# "+name
	}
	fmt.Fprintf(&s.out, "%s = %s", name, value)
	if s.origin {
		fmt.Fprintf(&s.out, "  # from %s", s.loaded.nearestOrigin(key))
	}
	s.out.WriteByte('\n')
}

// value renders one value as TOML. It reports false for a value that is unset and has no default.
func (s *shower) value(key string, v reflect.Value) (string, bool) {
	if v.Type() == secretType {
		return literal(v.Interface().(Secret).String()), true
	}
	if written, ok := s.loaded.written[key]; ok {
		if strings.HasSuffix(key, "url") && plainly.Address(written) != "" {
			written = plainly.Address(written)
		}
		return literal(written), true
	}
	if v.Kind() == reflect.Slice {
		items := make([]string, v.Len())
		for i := range items {
			items[i], _ = s.value(fmt.Sprintf("%s[%d]", key, i), v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]", true
	}
	p, ok := plain(v)
	if text, isText := p.(string); isText && strings.HasSuffix(key, "url") {
		p = shownAddress(text)
	}
	return literal(p), ok
}

// shownAddress returns a URL without the parts that may hold a key: see plain.Address.
func shownAddress(raw string) string {
	if raw == "" {
		return ""
	}
	return cmp.Or(plainly.Address(raw), "hidden")
}

// plain converts a scalar or a list of scalars to a type that TOML and JSON can encode.
func plain(v reflect.Value) (any, bool) {
	switch {
	case v.Type() == durationType:
		return shortDuration(time.Duration(v.Int())), true
	case v.Type() == secretType || table(v.Type()):
		return nil, false
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return nil, false
		}
		return plain(v.Elem())
	case v.Kind() == reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i], _ = plain(v.Index(i))
		}
		return items, true
	case v.Kind() == reflect.String:
		return v.String(), true
	}
	return v.Interface(), true
}

// shortDuration formats a duration without trailing zero units: 5m instead of the 5m0s of String.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// literal formats a scalar as TOML.
func literal(v any) string {
	out, err := toml.Marshal(map[string]any{"v": v})
	if err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(v))
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(out), "v = "), "\n")
}
