package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// place is a position in a file. Both numbers count from 1; column is in characters.
type place struct{ line, column int }

// places are the positions of keys and scalar values by dotted key; list elements are key[0] and so on. They are kept
// as offsets, because few are ever converted.
type places struct {
	data  []byte
	lines []int // offsets at which a line begins
	key   map[string]int
	value map[string]unstable.Range
}

// parse reads TOML into plain maps.
func parse(path string, data []byte) (map[string]any, *Problem) {
	tree := map[string]any{}
	err := toml.Unmarshal(data, &tree)
	if err == nil {
		return tree, nil
	}
	p := &Problem{Source: path, Message: "this is no valid TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	var d *toml.DecodeError
	if errors.As(err, &d) {
		p.Line, p.Column = d.Position()
	}
	return nil, p
}

// locate finds the positions in a document that parse accepted.
func locate(data []byte) places {
	w := walker{
		places: places{data: data, lines: []int{0}, key: map[string]int{}, value: map[string]unstable.Range{}},
		arrays: map[string]int{},
	}
	for i, b := range data {
		if b == '\n' {
			w.lines = append(w.lines, i+1)
		}
	}
	w.parser.Reset(data)
	prefix := ""
	for w.parser.NextExpression() {
		switch e := w.parser.Expression(); e.Kind {
		case unstable.Table:
			prefix = w.header(e, false)
		case unstable.ArrayTable:
			prefix = w.header(e, true)
		case unstable.KeyValue:
			w.keyValue(prefix, e)
		}
	}
	return w.places
}

type walker struct {
	places
	parser unstable.Parser
	arrays map[string]int // how many elements an array of tables has so far
}

// header returns the path that a [table] or [[array]] opens.
func (w *walker) header(e *unstable.Node, array bool) string {
	path := ""
	for it := e.Key(); it.Next(); {
		path = w.element(path)
		path = w.name(path, it.Node())
	}
	if array {
		w.arrays[path]++
		last := w.element(path)
		w.key[last] = w.key[path]
		return last
	}
	return w.element(path)
}

// element returns the path of the last element of an array of tables, or path itself.
func (w *walker) element(path string) string {
	if n := w.arrays[path]; n > 0 {
		return fmt.Sprintf("%s[%d]", path, n-1)
	}
	return path
}

// maxPath bounds the dotted keys that are recorded, in bytes. No setting comes near it. Without a bound, a file of one
// key with very many dots would cost its size squared.
const maxPath = 1000

// name appends a key to a path and records the key's position; a table keeps its first one.
func (w *walker) name(path string, key *unstable.Node) string {
	if len(path) > maxPath {
		return path
	}
	path = join(path, string(key.Data))
	if _, seen := w.key[path]; !seen || w.arrays[path] > 0 {
		w.key[path] = int(key.Raw.Offset)
	}
	return path
}

func (w *walker) keyValue(path string, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		path = w.name(path, it.Node())
	}
	w.node(path, e.Value())
}

func (w *walker) node(path string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			w.keyValue(path, it.Node())
		}
	case unstable.Array:
		for i, it := 0, v.Children(); it.Next(); i++ {
			element := fmt.Sprintf("%s[%d]", path, i)
			w.key[element] = w.key[path]
			w.node(element, it.Node())
		}
	default:
		if v.Raw.Length > 0 {
			w.value[path] = v.Raw
		}
	}
}

// place converts an offset to line and column.
func (p places) place(offset int) place {
	line, exact := slices.BinarySearch(p.lines, offset)
	if !exact {
		line--
	}
	return place{line: line + 1, column: utf8.RuneCount(p.data[p.lines[line]:offset]) + 1}
}

// of returns the position of a key, or of its value if value is set and the key has one. It is zero without a file.
func (p places) of(key string, value bool) place {
	if v, ok := p.value[key]; ok && value {
		return p.place(int(v.Offset))
	}
	if offset, ok := p.key[key]; ok {
		return p.place(offset)
	}
	return place{}
}

// nearest returns the position of a key's value, or of the nearest enclosing key in the file that is not a section.
func (p places) nearest(key string) place {
	if !strings.ContainsAny(key, ".[") {
		return p.of(key, true)
	}
	for k := key; strings.ContainsAny(k, ".["); k = k[:strings.LastIndexAny(k, ".[")] {
		if where := p.of(k, true); where != (place{}) {
			return where
		}
	}
	return place{}
}

// inside returns the position of the first occurrence of text in a value as written, or the value's own position if
// text does not occur there.
func (p places) inside(key, text string) place {
	v, ok := p.value[key]
	if !ok {
		return p.of(key, true)
	}
	raw := p.data[v.Offset : v.Offset+v.Length]
	return p.place(int(v.Offset) + max(bytes.Index(raw, []byte(text)), 0))
}

// join appends a name to a dotted key, quoted if TOML requires quotes.
func join(path, name string) string {
	if !bare(name) {
		name = fmt.Sprintf("%q", name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// bare reports whether TOML accepts a key without quotes.
func bare(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && strings.Trim(name, letters) == ""
}
