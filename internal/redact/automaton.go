package redact

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/invisible"
)

// automaton finds all occurrences of many forms in one pass (Aho and Corasick, 1975). A node is a prefix of a form;
// node 0 is the empty prefix. The automaton always includes Text, so that it does not redact parts of an earlier
// redaction. It compares forms and texts without their invisible characters, because on a screen a secret with an
// invisible character inside looks like the secret.
type automaton struct {
	nodes []node
	root  [256]int32 // children of node 0
}

type node struct {
	child, sibling int32 // 0: none
	fail           int32 // the longest proper suffix that is a node
	depth          int32 // length in bytes
	match          int32 // length of the longest form that ends here; 0: none
	held           int32 // bytes of the longest suffix that may still become a longer form
	last           byte
}

func newAutomaton() *automaton {
	a := &automaton{nodes: make([]node, 1)}
	a.insert(Text)
	return a
}

func (a *automaton) insert(form string) {
	if form = visible(form); len(form) < MinSecret {
		return
	}
	at := int32(0)
	for i := range len(form) {
		child := a.child(at, form[i])
		if child == 0 {
			child = int32(len(a.nodes))
			a.nodes = append(a.nodes, node{sibling: a.nodes[at].child, depth: int32(i + 1), last: form[i]})
			a.nodes[at].child = child
			if at == 0 {
				a.root[form[i]] = child
			}
		}
		at = child
	}
	a.nodes[at].match = a.nodes[at].depth
}

func (a *automaton) child(at int32, b byte) int32 {
	if at == 0 {
		return a.root[b]
	}
	for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
		if a.nodes[c].last == b {
			return c
		}
	}
	return 0
}

// link sets the fields that depend on suffixes, shorter nodes first.
func (a *automaton) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
			n := &a.nodes[c]
			if at != 0 {
				n.fail = a.next(a.nodes[at].fail, n.last)
			}
			if n.match == 0 {
				n.match = a.nodes[n.fail].match
			}
			n.held = n.depth
			if n.child == 0 {
				n.held = a.nodes[n.fail].held
			}
			queue = append(queue, c)
		}
	}
}

// next returns the longest suffix of the node followed by b that is itself a node. Over a text its cost is linear,
// times the largest number of children of a node.
func (a *automaton) next(at int32, b byte) int32 {
	for at != 0 {
		if c := a.child(at, b); c != 0 {
			return c
		}
		at = a.nodes[at].fail
	}
	return a.root[b]
}

func (a *automaton) occursIn(s string) bool {
	at := int32(0)
	for i := 0; i < len(s); i++ {
		if at != 0 && !inked(s[i]) {
			if n := invisible.Prefix(s[i:]); n > 0 {
				i += n - 1
				continue
			}
		}
		if at = a.next(at, s[i]); a.nodes[at].match > 0 {
			return true
		}
	}
	return false
}

// inked reports whether b is a printable ASCII character, as most bytes are.
func inked(b byte) bool { return b >= ' ' && b < 0x7f }

// visible returns s without its invisible characters.
func visible(s string) string {
	if !hides(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := invisible.Prefix(s[i:]); n > 0 {
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// hides reports whether s has invisible characters.
func hides(s string) bool {
	for i := range len(s) {
		if !inked(s[i]) && invisible.Prefix(s[i:]) > 0 {
			return true
		}
	}
	return false
}

// values redacts the bytes of all occurrences in a text that arrives in pieces. Overlapping occurrences become one
// Text.
type values struct {
	*automaton
	at      int32
	cut     string // the first bytes of a character whose remaining bytes have not arrived
	buf     []byte // text that may still become part of an occurrence
	from    int    // offset of buf in the text
	skipped []run  // of invisible characters, in order, if there are any after from
	runs    []run  // of bytes to redact that end after from, in order, without overlaps
	open    bool   // Text has been written for the first run
}

// run is a range of offsets in the text.
type run struct{ from, to int }

// write takes a piece of the text and appends the decided text to out.
func (v *values) write(out []byte, s string) []byte {
	s, v.cut = wholeRunes(v.cut + s)
	end := v.take(s)
	return v.emit(out, v.begin(end, v.nodes[v.at].held))
}

// flush ends the text and appends the remaining text to out.
func (v *values) flush(out []byte) []byte {
	end := v.take(v.cut)
	v.cut = ""
	return v.emit(out, end)
}

// take finds occurrences that end in s, which follows buf, and returns the offset of its end in the text.
func (v *values) take(s string) int {
	end := v.from + len(v.buf)
	v.buf = append(v.buf, s...)
	for i := 0; i < len(s); i++ {
		if v.at != 0 && !inked(s[i]) {
			if n := invisible.Prefix(s[i:]); n > 0 {
				v.pass(run{end, end + n})
				i, end = i+n-1, end+n
				continue
			}
		}
		end++
		v.at = v.next(v.at, s[i])
		if n := v.nodes[v.at].match; n > 0 {
			v.blank(run{v.begin(end, n), end})
		}
	}
	return end
}

// pass records invisible characters, which are not compared.
func (v *values) pass(r run) {
	if n := len(v.skipped); n > 0 && v.skipped[n-1].to == r.from {
		v.skipped[n-1].to = r.to
		return
	}
	v.skipped = append(v.skipped, r)
}

// begin returns the offset in the text at which the last n compared bytes before end begin.
func (v *values) begin(end int, n int32) int {
	from := end - int(n)
	for i := len(v.skipped) - 1; i >= 0 && v.skipped[i].to > from; i-- {
		from -= v.skipped[i].to - v.skipped[i].from
	}
	return from
}

// wholeRunes splits off an incomplete character at the end of s.
func wholeRunes(s string) (whole, rest string) {
	for i := len(s) - 1; i >= max(0, len(s)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				return s[:i], s[i:]
			}
			break
		}
	}
	return s, ""
}

func (v *values) blank(r run) {
	for n := len(v.runs); n > 0 && v.runs[n-1].to > r.from; n-- {
		r.from = min(r.from, v.runs[n-1].from)
		v.runs = v.runs[:n-1]
	}
	v.runs = append(v.runs, r)
}

// emit appends the text before the offset to. No later occurrence can begin there.
func (v *values) emit(out []byte, to int) []byte {
	done := 0
	for _, r := range v.runs {
		if r.from >= to {
			break
		}
		if !v.open {
			out = append(append(out, v.upTo(r.from)...), Text...)
			v.open = true
		}
		v.upTo(min(r.to, to))
		if r.to > to {
			v.runs[done].from = to
			break
		}
		v.open = false
		done++
	}
	v.runs = append(v.runs[:0], v.runs[done:]...)
	if !v.open {
		out = append(out, v.upTo(to)...)
	}
	v.skipped = slices.DeleteFunc(v.skipped, func(r run) bool { return r.to <= v.from })
	return out
}

// upTo removes the bytes before an offset from the buffer and returns them.
func (v *values) upTo(offset int) []byte {
	n := max(offset-v.from, 0)
	head := v.buf[:n]
	v.buf, v.from = v.buf[n:], v.from+n
	return head
}
