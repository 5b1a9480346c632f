package redact

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/invisible"
)

// automaton finds all occurrences of many forms in one pass (Aho and Corasick, 1975). A form is an encoding of a
// secret. Each node is a prefix of a form; node 0 is the empty prefix. Text is always one of the forms, so that a
// part of an earlier redaction is not redacted again. Forms and texts are compared without their invisible
// characters, because on a screen a secret with an invisible character inside looks like the secret.
type automaton struct {
	nodes []node
	root  [256]int32 // children of node 0
}

// node is a prefix of a form. Other nodes are referred to by their index.
type node struct {
	child, sibling int32 // the first child, and the next child of the same parent; 0: none
	fail           int32 // the node of the longest proper suffix that is a node
	depth          int32 // length of the prefix in bytes
	match          int32 // length of the longest form that is a suffix of the prefix; 0: none
	held           int32 // length of the longest suffix that may still become a form
	last           byte  // the last byte of the prefix
}

// newAutomaton returns an automaton for Text only. The caller inserts the other forms and then calls link.
func newAutomaton() *automaton {
	a := &automaton{nodes: make([]node, 1)}
	a.insert(Text)
	return a
}

// insert adds a form. It ignores a form with fewer than MinSecret visible bytes.
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

// child returns the child of the node at whose last byte is b, or 0 if there is none.
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

// link sets fail, match and held of all nodes. It visits shorter prefixes first, because the fields of a node depend
// on those of its suffixes.
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
			if n.child == 0 { // the prefix is a whole form and cannot become a longer one
				n.held = a.nodes[n.fail].held
			}
			queue = append(queue, c)
		}
	}
}

// next returns the node that follows the node at after the byte b: the longest suffix of the text so far that is a
// node. Over a whole text, the cost is linear, times the largest number of children of a node.
func (a *automaton) next(at int32, b byte) int32 {
	for at != 0 {
		if c := a.child(at, b); c != 0 {
			return c
		}
		at = a.nodes[at].fail
	}
	return a.root[b]
}

// occursIn reports whether s contains a form.
func (a *automaton) occursIn(s string) bool {
	at := int32(0)
	for i := 0; i < len(s); i++ {
		if at != 0 && !isPlainASCII(s[i]) {
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

// isPlainASCII reports whether b is a printable ASCII character. It is a fast check that b does not belong to an
// invisible character.
func isPlainASCII(b byte) bool { return b >= ' ' && b < 0x7f }

// visible returns s without its invisible characters.
func visible(s string) string {
	if !hasInvisible(s) {
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

// hasInvisible reports whether s has invisible characters.
func hasInvisible(s string) bool {
	for i := range len(s) {
		if !isPlainASCII(s[i]) && invisible.Prefix(s[i:]) > 0 {
			return true
		}
	}
	return false
}

// values redacts all occurrences of the forms in a text that arrives in pieces. Overlapping occurrences are replaced
// by one Text. Offsets count the bytes of the whole text.
type values struct {
	*automaton
	at      int32  // the current node
	partial string // the first bytes of a character whose remaining bytes have not arrived
	buf     []byte // text that may still become part of an occurrence
	from    int    // the offset of buf
	skipped []run  // the invisible characters that end after from, in order
	runs    []run  // what to redact after from, in order, without overlaps
	open    bool   // Text has been written for the first of runs, whose end is still in buf
}

// run is a range of offsets, without the offset to itself.
type run struct{ from, to int }

// write processes the next piece of the text and appends to out the text that no later occurrence can change.
func (v *values) write(out []byte, s string) []byte {
	s, v.partial = wholeRunes(v.partial + s)
	end := v.scan(s)
	return v.emit(out, v.startOf(end, v.nodes[v.at].held))
}

// flush ends the text and appends the rest of it to out.
func (v *values) flush(out []byte) []byte {
	end := v.scan(v.partial)
	v.partial = ""
	return v.emit(out, end)
}

// scan appends s to buf and records the occurrences that end in s. It returns the offset of the end of s.
func (v *values) scan(s string) int {
	end := v.from + len(v.buf)
	v.buf = append(v.buf, s...)
	for i := 0; i < len(s); i++ {
		if v.at != 0 && !isPlainASCII(s[i]) {
			if n := invisible.Prefix(s[i:]); n > 0 {
				v.skip(run{end, end + n})
				i, end = i+n-1, end+n
				continue
			}
		}
		end++
		v.at = v.next(v.at, s[i])
		if n := v.nodes[v.at].match; n > 0 {
			v.redact(run{v.startOf(end, n), end})
		}
	}
	return end
}

// skip records invisible characters, which the automaton does not see.
func (v *values) skip(r run) {
	if n := len(v.skipped); n > 0 && v.skipped[n-1].to == r.from {
		v.skipped[n-1].to = r.to
		return
	}
	v.skipped = append(v.skipped, r)
}

// startOf returns the offset at which the last n visible bytes before the offset end begin. Invisible characters
// between them do not count.
func (v *values) startOf(end int, n int32) int {
	from := end - int(n)
	for i := len(v.skipped) - 1; i >= 0 && v.skipped[i].to > from; i-- {
		from -= v.skipped[i].to - v.skipped[i].from
	}
	return from
}

// wholeRunes splits an incomplete character off the end of s.
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

// redact adds r to the runs to redact. It joins r with the runs that it overlaps.
func (v *values) redact(r run) {
	for n := len(v.runs); n > 0 && v.runs[n-1].to > r.from; n-- {
		r.from = min(r.from, v.runs[n-1].from)
		v.runs = v.runs[:n-1]
	}
	v.runs = append(v.runs, r)
}

// emit appends the text before the offset to, with its redactions, to out and removes it from buf. The caller knows
// that no occurrence that begins before to is still possible.
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
		if r.to > to { // the rest of the run is dropped by a later call
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

// upTo removes the bytes before the offset from buf and returns them.
func (v *values) upTo(offset int) []byte {
	n := max(offset-v.from, 0)
	head := v.buf[:n]
	v.buf, v.from = v.buf[n:], v.from+n
	return head
}
