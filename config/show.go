package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/everturn/everturn/internal/printable"
)

// Show writes the effective configuration as TOML. A secret is shown as "set", and a value written with ${}
// is shown as written, because the environment may hold secrets. With origin, a comment gives the source of each value.
func (l *Loaded) Show(w io.Writer, origin bool) error {
	s := &tomlWriter{loaded: l, origin: origin}
	s.table("", "", field{value: reflect.ValueOf(l.Config)})
	if _, err := io.WriteString(w, s.out.String()); err != nil {
		return fmt.Errorf("showing the configuration: %w", err)
	}
	return nil
}

// tomlWriter writes a configuration as TOML.
type tomlWriter struct {
	loaded *Loaded
	origin bool // add a comment with the source of each value
	out    strings.Builder
}

// table writes the table f: its settings first, then the tables in it, as TOML requires. name is its dotted key without
// indexes. header is the line before its settings ("[policy]"); table omits it if there are no settings.
func (s *tomlWriter) table(name, header string, f field) {
	members := f.members()
	for _, m := range members {
		if table(m.value.Type()) {
			continue
		}
		if header != "" {
			fmt.Fprintf(&s.out, "\n%s\n", header)
			header = ""
		}
		s.setting(m)
	}
	for _, m := range members {
		inner := join(name, m.name)
		// A table in a section that is not set is left out. An entry of a map is there, even if it sets nothing.
		unset := name != "" && f.value.Kind() == reflect.Struct && m.value.IsZero()
		switch {
		case !table(m.value.Type()), unset:
		case m.value.Kind() == reflect.Slice:
			for _, element := range m.members() {
				s.table(inner, "[["+inner+"]]", element)
			}
		default:
			s.table(inner, "["+inner+"]", m)
		}
	}
}

// setting writes the line of a setting, or a comment if it has no value.
func (s *tomlWriter) setting(f field) {
	value, ok := s.value(f)
	name := join("", f.name)
	if !ok {
		value, name = "(not set)", "# "+name
	}
	fmt.Fprintf(&s.out, "%s = %s", name, value)
	if s.origin {
		fmt.Fprintf(&s.out, "  # from %s", s.loaded.Origin(f.key))
	}
	s.out.WriteByte('\n')
}

// value returns the value of a setting as TOML, and false if it is unset and has no default. It hides secrets, also
// those that are part of a URL.
func (s *tomlWriter) value(f field) (string, bool) {
	if f.value.Type() == secretType {
		return literal(f.value.Interface().(Secret).String()), f.value.String() != ""
	}
	if written, ok := s.loaded.written[f.key]; ok { // it has references, whose values may be secret
		if f.isURL() {
			written = cmp.Or(printable.Address(written), written) // a reference alone is no address
		}
		return literal(written), true
	}
	if f.value.Kind() == reflect.Slice {
		items := make([]string, f.value.Len())
		for i := range items {
			items[i], _ = s.value(f.element(i))
		}
		return "[" + strings.Join(items, ", ") + "]", true
	}
	p, ok := plain(f.value)
	if text, _ := p.(string); text != "" && f.isURL() {
		p = cmp.Or(printable.Address(text), "hidden") // without the parts that may hold a key
	}
	return literal(p), ok
}

// plain converts a scalar or a list of scalars to a type that TOML and JSON can encode. It returns false for a nil
// pointer, a secret and a table.
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
	if strings.HasSuffix(s, "m0s") { // and not "0s", which also ends 10s
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
