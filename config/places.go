package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// places are the positions of a file's keys and values, by dotted key; list elements are key[0] and so on. go-toml
// gives them only while it parses.
type places struct {
	data  []byte
	key   map[string]int // offset
	value map[string]unstable.Range
	lists map[string]int // elements of a [[list]] so far
}

// findPlaces reads the positions of a document that go-toml has accepted.
func findPlaces(data []byte) places {
	p := places{data: data, key: map[string]int{}, value: map[string]unstable.Range{}, lists: map[string]int{}}
	var parser unstable.Parser
	parser.Reset(data)
	table := ""
	for parser.NextExpression() {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table:
			table = p.keyOf("", e)
		case unstable.ArrayTable:
			list := p.keyOf("", e)
			table = fmt.Sprintf("%s[%d]", list, p.lists[list])
			p.key[table] = p.key[list]
			p.lists[list]++
		case unstable.KeyValue:
			p.add(p.keyOf(table, e), e.Value(), 0)
		}
	}
	return p
}

// The bounds of what is looked at; no key of agent.toml exceeds them.
const (
	maxDepth = 8    // names of a key, and values in each other
	maxKey   = 1000 // bytes

	beyond = "\x00" // stands for any key that exceeds them
)

// keyOf returns the dotted key of a header or a setting in a table, and adds its names' positions. A name before the
// last one that is a [[list]] means its latest element.
func (p places) keyOf(table string, e *unstable.Node) string {
	depth := 0
	for it := e.Key(); it.Next(); depth++ {
		if depth == maxDepth || len(table) > maxKey {
			return beyond
		}
		if n := p.lists[table]; n > 0 {
			table = fmt.Sprintf("%s[%d]", table, n-1)
		}
		table = join(table, string(it.Node().Data))
		p.key[table] = int(it.Node().Raw.Offset)
	}
	return table
}

// add adds a value's position, and those of the values in it.
func (p places) add(key string, n *unstable.Node, depth int) {
	if n.Raw.Length > 0 {
		p.value[key] = n.Raw
	}
	if depth == maxDepth {
		return
	}
	i := 0
	for it := n.Children(); it.Next(); i++ {
		switch n.Kind {
		case unstable.InlineTable:
			p.add(p.keyOf(key, it.Node()), it.Node().Value(), depth+1)
		case unstable.Array:
			element := fmt.Sprintf("%s[%d]", key, i)
			p.key[element] = p.key[key]
			p.add(element, it.Node(), depth+1)
		}
	}
}

// offset returns where a key's value is, or else the key itself.
func (p places) offset(key string) int {
	if at, ok := p.value[key]; ok {
		return int(at.Offset)
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
