package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// places are the positions of a file's keys and values, by dotted key; list elements are key[0] and so on. The decoder
// of go-toml does not return them, so findPlaces parses the file a second time.
type places struct {
	data  []byte                    // the file
	key   map[string]int            // byte offset of the key
	value map[string]unstable.Range // byte offset and length of the value
	lists map[string]int            // number of elements of a [[list]] so far
}

// findPlaces returns the positions of the keys and values in a TOML document, which go-toml must have accepted.
func findPlaces(data []byte) places {
	p := places{data: data, key: map[string]int{}, value: map[string]unstable.Range{}, lists: map[string]int{}}
	var parser unstable.Parser
	parser.Reset(data)
	table := ""
	for parser.NextExpression() {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table: // [table]
			table = p.keyOf("", e)
		case unstable.ArrayTable: // [[list]], the header of its next element
			list := p.keyOf("", e)
			table = fmt.Sprintf("%s[%d]", list, p.lists[list])
			p.key[table] = p.key[list]
			p.lists[list]++
		case unstable.KeyValue: // a setting of the last table
			p.add(p.keyOf(table, e), e.Value(), 0)
		}
	}
	return p
}

// findPlaces does not record keys that exceed these bounds. No valid key of agent.toml does.
const (
	maxDepth = 8    // names in a key, and levels of nested values
	maxKey   = 1000 // bytes

	beyond = "\x00" // stands for every key beyond the bounds; no key of agent.toml begins with it
)

// keyOf returns the dotted key of e, a table header or a setting in table, and records the position of each name in it.
// As in TOML, a [[list]] in the middle of a key means its latest element.
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

// add records the position of the value n of a key, and those of the values in it. depth is how many values n is in.
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

// offset returns the byte offset of a key's value. Without one, it returns that of the key, or 0 if the file lacks it.
func (p places) offset(key string) int {
	if value, ok := p.value[key]; ok {
		return int(value.Offset)
	}
	return p.key[key]
}

// position converts a byte offset to a line and a column. Both count from 1; the column is in characters.
func (p places) position(offset int) (line, column int) {
	before := p.data[:offset]
	lastLine := before[bytes.LastIndexByte(before, '\n')+1:]
	return bytes.Count(before, []byte("\n")) + 1, len([]rune(string(lastLine))) + 1
}

// locate sets a problem's source and position to those of its key in the file. If the file lacks the key, locate takes
// the nearest list or table around it that is not a whole section. If there is none, it leaves the problem as it is.
func (l *Loaded) locate(p *Problem) {
	for key := p.Key; key != ""; key = enclosing(key) {
		_, inFile := l.places.key[key]
		isSection := enclosing(key) == ""
		if inFile && (key == p.Key || !isSection) {
			p.Source = l.Path
			p.Line, p.Column = l.places.position(l.places.offset(key))
			return
		}
	}
}

// enclosing returns the key of the table or list that a key is in, "" for a section.
func enclosing(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }
