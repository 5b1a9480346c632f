package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// DefaultPath is the file that Load reads if no path is given.
const DefaultPath = "agent.toml"

// MaxFileBytes bounds agent.toml.
const MaxFileBytes = 1 << 20

// applyFile applies the file's layer. Its error means that loading cannot continue.
func (l *loader) applyFile(path string) error {
	data, err := readFile(path)
	if err != nil || data == nil {
		return err
	}
	l.loaded.Path = path
	if path == "" {
		l.loaded.Path = DefaultPath
	}
	var checked map[string]any // go-toml reports syntax errors and duplicate keys
	if err := toml.Unmarshal(data, &checked); err != nil {
		p := Problem{Source: l.loaded.Path, Message: "not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
		if d := (*toml.DecodeError)(nil); errors.As(err, &d) {
			p.Line, p.Column = d.Position()
		}
		return &Error{Problems: []Problem{p}}
	}
	l.loaded.places = places{data: data, key: map[string]int{}, value: map[string]int{}}
	l.applyDocument(data)
	return nil
}

// readFile returns nil if the file is optional and missing.
func readFile(path string) ([]byte, error) {
	optional := path == ""
	if optional {
		path = DefaultPath
	}
	f, err := os.Open(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	if len(data) > MaxFileBytes {
		return nil, unreadable(path, fmt.Sprintf("the file is larger than %d bytes; is it an agent.toml?", MaxFileBytes))
	}
	return append([]byte{}, data...), nil
}

func unreadable(path, why string) error {
	return &Error{Problems: []Problem{{Source: path, Message: "reading the configuration: " + why}}}
}

// applyDocument stores the values of a document that go-toml has accepted. go-toml's decoder cannot: it stops at the
// first value of a wrong type, has no durations, and does not give the positions of the keys that it accepts.
func (l *loader) applyDocument(data []byte) {
	var p unstable.Parser
	p.Reset(data)
	root := field{value: reflect.ValueOf(&l.loaded.Config).Elem()}
	var table []keyPart
	known := true // the table's header is
	for p.NextExpression() && len(l.problems) < maxProblems {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keyParts(e)
			known = l.descend(root, table, func(f field) bool { return l.header(f, e.Kind == unstable.ArrayTable) })
		case unstable.KeyValue:
			if known {
				l.descend(root, slices.Concat(table, keyParts(e)), func(f field) bool { return l.value(f, e.Value()) })
			}
		}
	}
}

// keyPart is one name of a dotted key, and its offset.
type keyPart struct {
	name   string
	offset int
}

func keyParts(e *unstable.Node) (out []keyPart) {
	for it := e.Key(); it.Next(); {
		out = append(out, keyPart{string(it.Node().Data), int(it.Node().Raw.Offset)})
	}
	return out
}

// descend calls store with the field that a dotted key names below f, and returns its result; false if there is no such
// field. It creates the entries of maps.
func (l *loader) descend(f field, key []keyPart, store func(field) bool) bool {
	if len(key) == 0 {
		return store(f)
	}
	if elements := f.value; elements.Kind() == reflect.Slice && table(elements.Type()) && elements.Len() > 0 {
		f = f.element(elements.Len() - 1) // a header below [[list]] means its latest element
	}
	name, at := key[0].name, join(f.key, key[0].name)
	var ok bool
	switch f.value.Kind() {
	case reflect.Struct:
		inner, known := f.member(name)
		if !known {
			l.addAt(at, key[0].offset, unknownKey(f, name))
			return false
		}
		l.loaded.places.key[at] = key[0].offset
		ok = l.descend(inner, key[1:], store)
	case reflect.Map:
		if f.value.IsNil() {
			f.value.Set(reflect.MakeMap(f.value.Type()))
		}
		entry := field{key: at, name: name, value: reflect.New(f.value.Type().Elem()).Elem()}
		if old := f.value.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			entry.value.Set(old)
		}
		l.loaded.places.key[at] = key[0].offset
		ok = l.descend(entry, key[1:], store)
		f.value.SetMapIndex(reflect.ValueOf(name), entry.value)
	default:
		l.mismatch(f, "a table")
	}
	return ok
}

// header opens a [table], or appends an element to a [[list of tables]].
func (l *loader) header(f field, list bool) bool {
	kind, t := "a table", f.value.Type()
	if list {
		kind = "a list of tables"
	}
	switch {
	case list != (t.Kind() == reflect.Slice) || !table(t):
		l.mismatch(f, kind)
		return false
	case list:
		f.value.Set(reflect.Append(f.value, defaultElement(t)))
		key := f.element(f.value.Len() - 1).key
		l.loaded.places.key[key] = l.loaded.places.key[f.key]
	case t.Kind() == reflect.Map && f.value.IsNil():
		f.value.Set(reflect.MakeMap(t))
	}
	return true
}

// value stores a value of the document in a field and reports whether it could.
func (l *loader) value(f field, n *unstable.Node) bool {
	if n.Raw.Length > 0 {
		l.loaded.places.value[f.key] = int(n.Raw.Offset)
	}
	switch kind := f.value.Kind(); {
	case n.Kind == unstable.InlineTable && (kind == reflect.Struct || kind == reflect.Map):
		if kind == reflect.Map && f.value.IsNil() {
			f.value.Set(reflect.MakeMap(f.value.Type()))
		}
		for it := n.Children(); it.Next(); {
			e := it.Node()
			l.descend(f, keyParts(e), func(inner field) bool { return l.value(inner, e.Value()) })
		}
		return true
	case n.Kind == unstable.Array && kind == reflect.Slice:
		f.value.SetZero()
		for it := n.Children(); it.Next() && len(l.problems) < maxProblems; {
			f.value.Set(reflect.Append(f.value, defaultElement(f.value.Type())))
			element := f.element(f.value.Len() - 1)
			l.loaded.places.key[element.key] = l.loaded.places.key[f.key]
			l.value(element, it.Node())
		}
		return true
	}
	return l.scalar(f, n)
}

// scalar stores a string, a number, true or false.
func (l *loader) scalar(f field, n *unstable.Node) bool {
	text, t := string(n.Data), f.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fits := false
	switch n.Kind {
	case unstable.String:
		fits = t.Kind() == reflect.String || t == durationType
	case unstable.Bool:
		fits = t.Kind() == reflect.Bool
	case unstable.Integer:
		fits = t != durationType && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64)
		number, _ := strconv.ParseInt(text, 0, 64) // go-toml has accepted it: 1_000, 0x3e8
		text = strconv.FormatInt(number, 10)
	case unstable.Float:
		fits = t.Kind() == reflect.Float64
		text = strings.ReplaceAll(text, "_", "")
	}
	if !fits {
		l.mismatch(f, kindOf(n.Kind))
		return false
	}
	if n.Kind == unstable.String {
		var resolved bool
		if text, resolved = l.interpolate(f, text, n.Raw); !resolved {
			return false
		}
	}
	if parseInto(f.value, text) == nil {
		return true
	}
	if kind := kindOf(n.Kind); t != durationType {
		l.mismatch(f, kind)
	} else {
		l.mismatch(f, quote(text))
	}
	return false
}

// mismatch reports a value that does not fit its field. is describes the value without its content, which may be a
// secret.
func (l *loader) mismatch(f field, is string) {
	l.addAt(f.key, l.loaded.places.offset(f.key), fmt.Sprintf("%s is %s; it must be %s", f.key, is, f.wants()))
}

// addAt adds a problem at an offset of the file, once for each key: several headers may name the same wrong table.
func (l *loader) addAt(key string, offset int, message string) {
	if slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == key }) {
		return
	}
	p := Problem{Key: key, Source: l.loaded.Path, Message: message}
	p.Line, p.Column = l.loaded.places.position(offset)
	l.add(p)
}

func kindOf(k unstable.Kind) string {
	switch k {
	case unstable.String:
		return "a string"
	case unstable.Integer:
		return "an integer"
	case unstable.Float:
		return "a number with a fraction"
	case unstable.Bool:
		return "true or false"
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	}
	return "a date or time"
}

// places are the offsets of a file's keys and values, by dotted key; list elements are key[0] and so on.
type places struct {
	data       []byte
	key, value map[string]int
}

// offset returns where a key's value is, or else the key itself.
func (p places) offset(key string) int {
	if at, ok := p.value[key]; ok {
		return at
	}
	return p.key[key]
}

// position converts an offset to line and column. Both count from 1; column is in characters.
func (p places) position(offset int) (line, column int) {
	before := p.data[:offset]
	lastLine := before[bytes.LastIndexByte(before, '\n')+1:]
	return bytes.Count(before, []byte("\n")) + 1, len([]rune(string(lastLine))) + 1
}

// locate sets a problem's position to that of its key, or of the nearest enclosing key in the file that is not a
// section.
func (l *Loaded) locate(p *Problem) {
	for key := p.Key; key != ""; key = enclosing(key) {
		if _, ok := l.places.key[key]; ok && (key == p.Key || enclosing(key) != "") {
			p.Source = l.Path
			p.Line, p.Column = l.places.position(l.places.offset(key))
			return
		}
	}
}

// enclosing returns the key of the table or list that a key is in, "" for a section.
func enclosing(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }
