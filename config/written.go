package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/printable"
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

// Changes returns the settings that the file sets or that differ from the defaults, one line each: "llm.base_url =
// 'http://…'". Elements of lists have their IDs in their keys. Values are shown as they are written, except that
// Changes hides the password in a URL, and shows only the references of a Secret. A Secret with the tag shown="written"
// is shown whole, because it decides what runs or where something is sent. hashes has the hex SHA-256 of each value of
// which a part is hidden, by the key in its line.
func (l *Loaded) Changes() (lines []string, hashes map[string]string) {
	s, hashes := &tomlWriter{loaded: l}, map[string]string{}
	f := field{value: reflect.ValueOf(l.Config)}
	return s.changes("", f, reflect.ValueOf(Default()), hashes), hashes
}

// changes returns the settings in f that the file sets or that differ from defaults, the default value of f, one line
// each. name is the key of f for display: IDs take the place of list indexes. changes adds to hashes.
func (s *tomlWriter) changes(name string, f field, defaults reflect.Value, hashes map[string]string) (lines []string) {
	if !table(f.value.Type()) {
		if _, inFile := s.loaded.places.key[f.key]; !inFile && reflect.DeepEqual(f.value.Interface(), defaults.Interface()) {
			return nil
		}
		value, hides := s.asWritten(f)
		if hides {
			sum := sha256.Sum256([]byte(f.value.String()))
			hashes[name] = hex.EncodeToString(sum[:])
		}
		return []string{name + " = " + value}
	}
	defaultMembers := field{value: defaults}.members()
	for i, m := range f.members() {
		memberName := join(name, m.name)
		var memberDefaults reflect.Value
		switch f.value.Kind() {
		case reflect.Struct:
			memberDefaults = defaultMembers[i].value
		case reflect.Slice:
			memberName = fmt.Sprintf("%s[%s]", name, elementName(m, i))
			memberDefaults = newElement(f.value.Type())
		default:
			memberDefaults = newElement(f.value.Type())
		}
		lines = slices.Concat(lines, s.changes(memberName, m, memberDefaults, hashes))
	}
	return lines
}

// asWritten returns the value of a setting as TOML for Changes, and whether a part of it is hidden.
func (s *tomlWriter) asWritten(f field) (value string, hides bool) {
	isSecret := f.value.Type() == secretType
	switch {
	case isSecret && f.tag.Get("shown") != "written":
		secret := f.value.Interface().(Secret)
		value = literal(secret.String())
		if refs := secret.References(); refs != nil {
			value += " with " + strings.Join(refs, ", ")
		}
		return value, true
	case f.isURL():
		text := printable.WithoutPassword(f.value.String())
		return literal(text), text != f.value.String()
	case isSecret:
		return literal(f.value.String()), false
	}
	value, _ = s.value(f)
	return value, false
}

// SecretFiles returns the paths in the references ${file:PATH} of a file that has not been resolved (see Written). Only
// Secrets may have such references.
func (l *Loaded) SecretFiles() []string { return secretFiles(field{value: reflect.ValueOf(l.Config)}) }

func secretFiles(f field) (paths []string) {
	if f.value.Type() == secretType {
		for _, m := range reference.FindAllStringSubmatch(f.value.String(), -1) {
			if path := m[4]; path != "" {
				paths = append(paths, path)
			}
		}
	}
	for _, m := range f.members() {
		paths = append(paths, secretFiles(m)...)
	}
	return paths
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
