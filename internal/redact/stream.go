package redact

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/invisible"
)

// maxHeld bounds the text, in bytes, that a Stream holds back because a pattern may still match it. Longer text is
// redacted as if the pattern matched: it may be a private key whose end is missing.
const maxHeld = 16 << 10

// Stream redacts a text that arrives in pieces. However the text is split, the results together equal String of the
// whole text, except for matches longer than 16 KiB. A Stream holds back only text that may still become a secret. It
// is not safe for concurrent use.
type Stream struct {
	values   values
	patterns []*finder
}

// Stream returns a Stream for one text. It does not redact secrets that are added to r later.
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

// Write processes the next piece of the text and returns the redacted text that later pieces cannot change.
func (s *Stream) Write(text string) string {
	out := s.values.write(nil, text)
	for _, f := range s.patterns {
		out = f.write(out, false)
	}
	return string(out)
}

// Flush ends the text and returns the rest of the redacted text.
func (s *Stream) Flush() string {
	out := s.values.flush(nil)
	for _, f := range s.patterns {
		out = f.write(out, true)
	}
	return string(out)
}

// pattern is a regular expression, compiled for package regexp and for finder.
type pattern struct {
	*regexp.Regexp
	prog  *syntax.Prog
	first [utf8.RuneSelf]bool // the characters that a match can begin with
	// required is a literal text that every match contains, in lower case if fold is set. It is empty if none is known.
	required string
	fold     bool
}

// mayMatch reports whether s contains the text that every match contains. This check is far cheaper than the regular
// expression: package regexp cannot search for a prefix if the expression begins with \b or ignores case.
func (p *pattern) mayMatch(s string) bool {
	if !p.fold {
		return strings.Contains(s, p.required)
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return true // some letters outside ASCII, such as the long s, match an ASCII letter if case is ignored
	}
	return strings.Contains(strings.ToLower(s), p.required)
}

// setRequired sets required to the longest literal text that every match of the syntax tree contains.
func (p *pattern) setRequired(tree *syntax.Regexp) {
	switch tree.Op {
	case syntax.OpConcat:
		for _, part := range tree.Sub {
			p.setRequired(part)
		}
	case syntax.OpCapture, syntax.OpPlus:
		p.setRequired(tree.Sub[0])
	case syntax.OpLiteral:
		if text := string(tree.Rune); len(text) > len(p.required) {
			p.fold = tree.Flags&syntax.FoldCase != 0
			p.required = text
			if p.fold {
				p.required = strings.ToLower(text)
			}
		}
	}
}

// newPattern compiles expr, which must be valid.
func newPattern(expr string) *pattern {
	p := &pattern{Regexp: regexp.MustCompile(expr)}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil { // cannot happen: package regexp has parsed it
		panic(err)
	}
	p.setRequired(tree)
	if p.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		panic(err)
	}
	// A match can begin with the characters that are accepted at the start if all assertions such as \b hold.
	f := p.finder(0)
	f.flags = ^syntax.EmptyOp(0)
	f.round++
	f.follow(uint32(p.prog.Start), 0)
	for c := range p.first {
		for _, t := range f.ready {
			p.first[c] = p.first[c] || f.accepts(t.pc, rune(c))
		}
	}
	return p
}

// finder returns a finder of the pattern that holds back at most limit bytes.
func (p *pattern) finder(limit int) *finder {
	return &finder{pattern: p, limit: limit, prev: -1, seen: make([]int, len(p.prog.Inst))}
}

// finder replaces the matches of one pattern in a text that arrives in pieces. It also finds matches with invisible
// characters inside. It simulates the pattern's automaton with Pike's algorithm, as package regexp does, because the
// simulation shows from which offset on a match is still possible. Offsets are relative to buf.
type finder struct {
	*pattern
	limit   int            // the largest number of bytes to hold back
	buf     []byte         // text that may still become part of a match
	pos     int            // offset up to which the text has been examined
	prev    rune           // the character before pos; -1 at the beginning of the text
	threads []thread       // in order of falling priority, and therefore of rising start
	ready   []thread       // the threads at instructions that consume a character, in the same order
	found   bool           // there is a match, but a thread of higher priority may still replace it
	match   run            // if found
	seen    []int          // the last round in which follow visited each instruction
	round   int            // the number of the current step
	flags   syntax.EmptyOp // the assertions that hold at pos
}

// thread is a match that is still possible.
type thread struct {
	pc    uint32 // the instruction that it has reached
	start int    // the offset at which it began
}

// write processes the next piece of the text and returns the text that later pieces cannot change. end means that the
// piece is the last one.
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
		// A character with which no match can begin needs no step if no match is under way.
		if len(f.threads) > 0 || r < 0 || r >= utf8.RuneSelf || f.first[r] {
			f.step(r)
		}
		switch {
		case f.found && len(f.threads) == 0:
			out = f.replace(out, f.match)
			continue
		case n == 0: // the end of the text
			return append(out, f.buf...)
		}
		f.pos, f.prev = f.pos+n, r
		if len(f.threads) > 0 && f.pos-f.threads[0].start > f.limit { // too long to hold back: redact it
			out = f.replace(out, run{f.threads[0].start, f.pos})
		}
	}
	decided := f.pos // the offset before which no match is possible any more
	if f.found {
		decided = f.match.from
	} else if len(f.threads) > 0 {
		decided = f.threads[0].start
	}
	out = append(out, f.buf[:decided]...)
	f.drop(decided)
	return out
}

// replace appends the text before the match and Text to out, and removes both the text and the match from buf. The
// search continues after the match.
func (f *finder) replace(out []byte, match run) []byte {
	out = append(append(out, f.buf[:match.from]...), Text...)
	f.prev, _ = utf8.DecodeLastRune(f.buf[:match.to])
	f.threads, f.found, f.pos = f.threads[:0], false, match.to
	f.drop(match.to)
	return out
}

// drop removes the first n bytes of buf and adapts all offsets.
func (f *finder) drop(n int) {
	f.buf = f.buf[n:]
	f.pos -= n
	f.match.from, f.match.to = f.match.from-n, f.match.to-n
	for i := range f.threads {
		f.threads[i].start -= n
	}
}

// step moves each thread over the character r at pos, which removes the threads that r does not continue. r is -1 at
// the end of the text. If a thread reaches the end of the pattern before r, follow sets found and match, and step
// discards the threads of lower priority.
func (f *finder) step(r rune) {
	f.flags = syntax.EmptyOpContext(f.prev, r)
	f.round++
	f.ready = f.ready[:0]
	matched := false
	for _, t := range f.threads {
		if matched = f.follow(t.pc, t.start); matched {
			break
		}
	}
	if !matched && !f.found { // another match may begin here, with the lowest priority
		f.follow(uint32(f.prog.Start), f.pos)
	}
	f.threads = f.threads[:0]
	for _, t := range f.ready {
		if r >= 0 && f.accepts(t.pc, r) {
			f.threads = append(f.threads, thread{f.prog.Inst[t.pc].Out, t.start})
		}
		if r >= 0 && t.start < f.pos && invisible.Rune(r) {
			f.threads = append(f.threads, t) // continue as if the invisible character were not there
		}
	}
}

// follow appends to ready the instructions that a thread at pc can reach without consuming a character. start is the
// thread's start. follow reports whether a match ends here, which overrides all threads of lower priority.
func (f *finder) follow(pc uint32, start int) bool {
	if f.seen[pc] == f.round {
		return false
	}
	f.seen[pc] = f.round
	switch inst := &f.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return f.follow(inst.Out, start) || f.follow(inst.Arg, start)
	case syntax.InstEmptyWidth:
		return syntax.EmptyOp(inst.Arg)&^f.flags == 0 && f.follow(inst.Out, start)
	case syntax.InstCapture, syntax.InstNop:
		return f.follow(inst.Out, start)
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

// accepts reports whether the instruction at pc consumes the character r.
func (f *finder) accepts(pc uint32, r rune) bool {
	switch inst := &f.prog.Inst[pc]; inst.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	default:
		return inst.MatchRune(r)
	}
}
