package redact

import (
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/invisible"
)

// maxHeld bounds the text that a Stream holds back for a pattern that may still match, in bytes. Longer text is
// redacted as if the pattern matched: it may be a private key without an end.
const maxHeld = 16 << 10

// Stream is like String, for a text that arrives in pieces. However the text is split, the results together equal
// String of the whole text, except for matches longer than 16 KiB. A Stream holds back only text that may still become
// a secret. It is not safe for concurrent use.
type Stream struct {
	values   values
	patterns []*finder
}

// Stream returns a stream for a text. The stream does not redact secrets that are added later.
func (r *Redactor) Stream() *Stream {
	if r == nil {
		return &Stream{values: values{automaton: New().forms()}}
	}
	s := &Stream{values: values{automaton: r.forms()}}
	for _, p := range r.patterns {
		s.patterns = append(s.patterns, p.finder(maxHeld))
	}
	return s
}

// Write takes the next piece and returns the decided text.
func (s *Stream) Write(text string) string {
	out := s.values.write(nil, text)
	for _, f := range s.patterns {
		out = f.write(out, false)
	}
	return string(out)
}

// Flush ends the text and returns the remaining text.
func (s *Stream) Flush() string {
	out := s.values.flush(nil)
	for _, f := range s.patterns {
		out = f.write(out, true)
	}
	return string(out)
}

// pattern is a compiled pattern, for package regexp and for finders.
type pattern struct {
	*regexp.Regexp
	prog  *syntax.Prog
	first [utf8.RuneSelf]bool // the characters that a match can begin with
}

func newPattern(expr string) *pattern {
	p := &pattern{Regexp: regexp.MustCompile(expr)}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil { // cannot happen: package regexp has parsed it
		panic(err)
	}
	if p.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		panic(err)
	}
	f := p.finder(0)
	f.flags = ^syntax.EmptyOp(0)
	f.round++
	f.add(uint32(p.prog.Start), 0)
	for c := range p.first {
		for _, t := range f.ready {
			p.first[c] = p.first[c] || f.takes(t.pc, rune(c))
		}
	}
	return p
}

// finder returns a finder of the pattern that holds back at most held bytes.
func (p *pattern) finder(held int) *finder {
	return &finder{pattern: p, held: held, prev: -1, seen: make([]int, len(p.prog.Inst))}
}

// finder replaces the matches of one pattern, with and without the invisible characters in the text. It simulates the
// pattern's automaton (Pike's algorithm, as package regexp does), because the simulation shows from which offset a
// match is still possible.
type finder struct {
	*pattern
	held    int
	buf     []byte   // undecided text
	pos     int      // offset in buf up to which the text has been examined
	prev    rune     // before pos; -1 at the beginning of the text
	threads []thread // by falling priority, and therefore by rising start
	ready   []thread
	found   bool
	match   run // of buf, if found
	seen    []int
	round   int
	flags   syntax.EmptyOp
}

// thread is a match that is still possible.
type thread struct {
	pc    uint32
	start int // in buf
}

// write takes the next piece of the text and returns the decided text. The piece is the last one if end is set.
func (f *finder) write(piece []byte, end bool) (out []byte) {
	f.buf = append(f.buf, piece...)
	for f.pos < len(f.buf) || end {
		r, n := rune(-1), 0
		if f.pos < len(f.buf) {
			if !end && !utf8.FullRune(f.buf[f.pos:]) {
				break
			}
			r, n = utf8.DecodeRune(f.buf[f.pos:])
		}
		if len(f.threads) > 0 || r < 0 || r >= utf8.RuneSelf || f.first[r] {
			f.step(r)
		}
		switch {
		case f.found && len(f.threads) == 0:
			out = f.replace(out, f.match)
			continue
		case n == 0:
			return append(out, f.buf...)
		}
		f.pos, f.prev = f.pos+n, r
		if len(f.threads) > 0 && f.pos-f.threads[0].start > f.held {
			out = f.replace(out, run{f.threads[0].start, f.pos})
		}
	}
	decided := f.pos
	if f.found {
		decided = f.match.from
	} else if len(f.threads) > 0 {
		decided = f.threads[0].start
	}
	out = append(out, f.buf[:decided]...)
	f.drop(decided)
	return out
}

// replace appends the text up to a match, then Text. The text after the match is examined again.
func (f *finder) replace(out []byte, match run) []byte {
	out = append(append(out, f.buf[:match.from]...), Text...)
	f.prev, _ = utf8.DecodeLastRune(f.buf[:match.to])
	f.threads, f.found, f.pos = f.threads[:0], false, match.to
	f.drop(match.to)
	return out
}

// drop discards the first n bytes.
func (f *finder) drop(n int) {
	f.buf = f.buf[n:]
	f.pos -= n
	f.match.from, f.match.to = f.match.from-n, f.match.to-n
	for i := range f.threads {
		f.threads[i].start -= n
	}
}

// step moves all threads over r, or to the end of the text if r is -1.
func (f *finder) step(r rune) {
	f.flags = syntax.EmptyOpContext(f.prev, r)
	f.round++
	f.ready = f.ready[:0]
	ended := false
	for _, t := range f.threads {
		if ended = f.add(t.pc, t.start); ended {
			break
		}
	}
	if !ended && !f.found {
		f.add(uint32(f.prog.Start), f.pos)
	}
	f.threads = f.threads[:0]
	for _, t := range f.ready {
		if r >= 0 && f.takes(t.pc, r) {
			f.threads = append(f.threads, thread{f.prog.Inst[t.pc].Out, t.start})
		}
		if r >= 0 && t.start < f.pos && invisible.Rune(r) {
			f.threads = append(f.threads, t) // as if r were not there
		}
	}
}

// add appends to ready the instructions that can be reached from pc without consuming a character. It reports whether a
// match ends here, which overrides all threads of lower priority.
func (f *finder) add(pc uint32, start int) bool {
	if f.seen[pc] == f.round {
		return false
	}
	f.seen[pc] = f.round
	switch inst := &f.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return f.add(inst.Out, start) || f.add(inst.Arg, start)
	case syntax.InstEmptyWidth:
		return syntax.EmptyOp(inst.Arg)&^f.flags == 0 && f.add(inst.Out, start)
	case syntax.InstCapture, syntax.InstNop:
		return f.add(inst.Out, start)
	case syntax.InstFail:
		return false
	case syntax.InstMatch:
		if start == f.pos { // an empty match; the configuration rejects patterns that match the empty text
			return false
		}
		f.found, f.match = true, run{start, f.pos}
		return true
	}
	f.ready = append(f.ready, thread{pc, start})
	return false
}

func (f *finder) takes(pc uint32, r rune) bool {
	switch inst := &f.prog.Inst[pc]; inst.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	default:
		return inst.MatchRune(r)
	}
}
