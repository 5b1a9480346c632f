package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Written parses the content of a configuration file as it is written: references such as ${VAR} stay, and neither the
// environment nor another file is read. It is for showing a file before it is used, and checks only names and types.
func Written(path string, content []byte) (*Loaded, error) {
	l := newLoader(nil)
	l.asis = true
	if err := l.applyFile(path, content); err != nil {
		return nil, err
	}
	return l.loaded, asError(l.problems)
}

// Changes returns the settings that differ from the defaults, one line each: "llm.base_url = 'http://…'". Elements of
// lists have their IDs in their keys. Of a secret, only the references in it are shown.
func (l *Loaded) Changes() []string {
	s := &tomlWriter{loaded: l}
	f := field{value: reflect.ValueOf(l.Config)}
	return s.changes("", f, reflect.ValueOf(Default()))
}

// changes returns the settings in f that differ from those in unchanged. name is the key of f for display.
func (s *tomlWriter) changes(name string, f field, unchanged reflect.Value) (lines []string) {
	if !table(f.value.Type()) {
		_, written := s.loaded.written[f.key]
		if !written && reflect.DeepEqual(f.value.Interface(), unchanged.Interface()) {
			return nil
		}
		value, _ := s.value(f)
		if from := reference.FindAllString(s.loaded.written[f.key], -1); f.value.Type() == secretType && from != nil {
			value += " with " + strings.Join(from, ", ")
		}
		return []string{name + " = " + value}
	}
	for i, m := range f.members() {
		inner := join(name, m.name)
		var before reflect.Value
		switch f.value.Kind() {
		case reflect.Struct:
			before = unchanged.Field(i)
		case reflect.Slice:
			inner, before = fmt.Sprintf("%s[%s]", name, elementName(m, i)), newElement(f.value.Type())
		default:
			before = newElement(f.value.Type())
		}
		lines = slices.Concat(lines, s.changes(inner, m, before))
	}
	return lines
}

// elementName returns the ID of an element of a list, or its index if it has none.
func elementName(f field, i int) string {
	for _, name := range []string{"id", "name", "path"} {
		if m, ok := f.member(name); ok && m.value.String() != "" {
			return join("", m.value.String())
		}
	}
	return fmt.Sprint(i)
}
