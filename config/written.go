package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Written parses the content of a configuration file without resolving its references: ${VAR} stays as it is written,
// and neither the environment nor another file is read. It checks only names and types. A command shows a file in this
// form before the user decides whether to trust it.
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

// changes returns the settings in f that differ from defaults, the default value of f, one line each. name is the key
// of f for display: IDs take the place of list indexes. A setting with a reference (${VAR}) always counts as changed.
func (s *tomlWriter) changes(name string, f field, defaults reflect.Value) (lines []string) {
	if !table(f.value.Type()) {
		written, hasReference := s.loaded.written[f.key]
		if !hasReference && reflect.DeepEqual(f.value.Interface(), defaults.Interface()) {
			return nil
		}
		value, _ := s.value(f)
		if refs := reference.FindAllString(written, -1); f.value.Type() == secretType && refs != nil {
			value += " with " + strings.Join(refs, ", ")
		}
		return []string{name + " = " + value}
	}
	for i, m := range f.members() {
		memberName := join(name, m.name)
		var memberDefaults reflect.Value
		switch f.value.Kind() {
		case reflect.Struct:
			memberDefaults = defaults.Field(i) // i is also the index of the Go field: only the last one is no setting
		case reflect.Slice:
			memberName = fmt.Sprintf("%s[%s]", name, elementName(m, i))
			memberDefaults = newElement(f.value.Type())
		default:
			memberDefaults = newElement(f.value.Type())
		}
		lines = slices.Concat(lines, s.changes(memberName, m, memberDefaults))
	}
	return lines
}

// elementName returns the id, name or path of a list element, or its index i if it has none of them.
func elementName(f field, i int) string {
	for _, name := range []string{"id", "name", "path"} {
		if m, ok := f.member(name); ok && m.value.String() != "" {
			return join("", m.value.String())
		}
	}
	return fmt.Sprint(i)
}
