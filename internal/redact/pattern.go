package redact

import (
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// pattern is a compiled pattern. Package regexp matches whole texts only, so a pattern has two more expressions for a
// text that arrives in pieces. Both skip one character, the context of assertions such as \b, and capture the text up
// to the match.
type pattern struct {
	*regexp.Regexp
	match *regexp.Regexp // a match
	begun *regexp.Regexp // the beginning of a match, perhaps an empty one, at the end of the text
	first [256]bool      // the bytes with which a match may begin
}

func newPattern(expr string) *pattern {
	whole := regexp.MustCompile(expr)
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil { // cannot happen: package regexp has parsed it
		panic(err)
	}
	after := func(expr string) *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)((?s:.)*?)(?:` + expr + `)`) }
	p := &pattern{Regexp: whole, match: after(afterContext(tree).String()),
		begun: after(`(?:` + beginning(tree).String() + `)\z`)}
	for b := range p.first {
		p.first[b] = b >= utf8.RuneSelf
		for _, context := range []string{"\n", "a"} {
			p.first[b] = p.first[b] || p.begun.FindStringSubmatchIndex(context + string(rune(b)))[3] == 1
		}
	}
	return p
}

// afterContext changes an expression in place so that ^ matches after the context that begins every text, a newline.
func afterContext(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpBeginText {
		re.Op = syntax.OpBeginLine
	}
	for _, sub := range re.Sub {
		afterContext(sub)
	}
	return re
}

// beginning returns an expression that matches every beginning of each match of re.
func beginning(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpLiteral:
		if n := len(re.Rune); n > 1 {
			return inSequence(literal(re, re.Rune[:n/2]), literal(re, re.Rune[n/2:]))
		}
		return operation(syntax.OpQuest, re)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return operation(syntax.OpQuest, re)
	case syntax.OpConcat:
		if n := len(re.Sub); n > 1 {
			return inSequence(operation(syntax.OpConcat, re.Sub[:n/2]...), operation(syntax.OpConcat, re.Sub[n/2:]...))
		}
		return beginning(re.Sub[0])
	case syntax.OpAlternate:
		var begun []*syntax.Regexp
		for _, sub := range re.Sub {
			begun = append(begun, beginning(sub))
		}
		return operation(syntax.OpAlternate, begun...)
	case syntax.OpStar, syntax.OpPlus:
		return operation(syntax.OpConcat, operation(syntax.OpStar, re.Sub[0]), beginning(re.Sub[0]))
	case syntax.OpRepeat:
		before := operation(syntax.OpRepeat, re.Sub[0])
		before.Min, before.Max = 0, max(re.Max-1, -1)
		return operation(syntax.OpConcat, before, beginning(re.Sub[0]))
	case syntax.OpQuest, syntax.OpCapture:
		return beginning(re.Sub[0])
	}
	return operation(syntax.OpEmptyMatch) // an assertion, which holds or fails only with the next character
}

// inSequence returns the beginnings of a followed by b.
func inSequence(a, b *syntax.Regexp) *syntax.Regexp {
	return operation(syntax.OpAlternate, beginning(a), operation(syntax.OpConcat, a, beginning(b)))
}

func operation(op syntax.Op, subs ...*syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: op, Sub: subs}
}

func literal(re *syntax.Regexp, runes []rune) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: runes}
}

// maxHeld bounds the text that a Stream holds back for a pattern that may still match, in bytes. Longer text is
// redacted as if the pattern matched: it may be a private key without an end.
const maxHeld = 16 << 10

// finder replaces the matches of one pattern in a text that arrives in pieces.
type finder struct {
	*pattern
	context string // the last character before text
	text    string // undecided
}

func (p *pattern) finder() *finder { return &finder{pattern: p, context: "\n"} }

// write takes the next piece of the text and returns the decided text. The piece is the last one if end is set.
func (f *finder) write(piece string, end bool) (out string) {
	f.text += piece
	for {
		if out += f.take(f.candidate()); f.text == "" {
			return out
		}
		undecided := len(f.text)
		if !end {
			undecided = f.find(f.begun)[0]
		}
		if len(f.text)-undecided > maxHeld {
			return out + f.take(undecided) + f.redact(len(f.text))
		}
		m := f.find(f.match)
		if m == nil || m[0] >= undecided {
			return out + f.take(undecided)
		}
		out += f.take(m[0]) + f.redact(m[1]-m[0])
	}
}

// candidate returns the offset of the first byte of the undecided text with which a match may begin.
func (f *finder) candidate() int {
	for i := range len(f.text) {
		if f.first[f.text[i]] {
			return i
		}
	}
	return len(f.text)
}

// find returns the location of an expression in the undecided text, or nil.
func (f *finder) find(expr *regexp.Regexp) []int {
	m := expr.FindStringSubmatchIndex(f.context + f.text)
	if m == nil {
		return nil
	}
	return []int{m[3] - len(f.context), m[1] - len(f.context)}
}

// take removes the first n bytes of the undecided text and returns them.
func (f *finder) take(n int) string {
	taken := f.text[:n]
	if _, size := utf8.DecodeLastRuneInString(taken); size > 0 {
		f.context = taken[n-size:]
	}
	f.text = f.text[n:]
	return taken
}

// redact removes the first n bytes of the undecided text and returns Text.
func (f *finder) redact(n int) string {
	f.take(n)
	return Text
}
