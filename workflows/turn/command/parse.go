package command

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds of lines that are looked into. A longer one is not plain, and may contain any call.
const (
	maxBytes = 16 << 10
	maxCalls = 50
	maxDepth = 4 // of lines in words, as in sh -c 'sh -c …'
)

// word is a word of a call.
type word struct {
	text  string
	known bool // text is exactly what the program gets
}

// call is one call of a line, with its words. A call with more is followed by words that the line does not show.
type call struct {
	words []word
	more  bool
}

// line is a parsed command line.
type line struct {
	plain []call // the calls of a plain line, in their order
	why   string // why the line is not plain; empty if it is
	all   []call // all calls that the shell may make, those in words and behind wrappers too
	// opaque means that the line may make other calls, too: it cannot be parsed, or is too large.
	opaque bool
}

// parse parses a command line.
func parse(text string) line {
	var l line
	l.add(text, 0)
	if l.why == "" && len(l.plain) == 0 {
		l.why = "it has no command"
	}
	return l
}

// add parses a text and adds its calls. depth counts the lines around it.
func (l *line) add(text string, depth int) {
	if len(text) > maxBytes || depth > maxDepth {
		l.refuse("it is too long")
		l.opaque = true
		return
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		l.refuse("it has control characters") // shells disagree about them
		l.opaque = true
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		l.refuse("it is no POSIX command line")
		l.opaque = true
		return
	}
	if depth == 0 {
		l.statements(file.Stmts)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			l.behind(callOf(c), depth)
		}
		if _, ok := n.(*syntax.FuncDecl); ok {
			l.opaque = true // a later call of that name makes others
		}
		return true
	})
	if len(l.all) > maxCalls {
		l.refuse("it has too many calls")
		l.opaque, l.all = true, l.all[:maxCalls]
	}
}

// refuse records why the line is not plain. The first reason stays.
func (l *line) refuse(why string) {
	if l.why == "" {
		l.why = why
	}
}

// statements adds the calls of plain statements.
func (l *line) statements(list []*syntax.Stmt) {
	for _, s := range list {
		l.statement(s)
	}
}

func (l *line) statement(s *syntax.Stmt) {
	if s.Background || s.Coprocess || s.Negated {
		l.refuse("it starts a command in the background, or negates one")
	}
	for _, r := range s.Redirs {
		l.redirection(r)
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		l.plainCall(c)
	case *syntax.BinaryCmd:
		if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt && c.Op != syntax.Pipe {
			l.refuse("it joins commands with " + c.Op.String())
		}
		l.statement(c.X)
		l.statement(c.Y)
	default:
		l.refuse("it is more than a list of commands")
	}
}

// redirection refuses a redirection that may lead out of the tree, or that is a here-document.
func (l *line) redirection(r *syntax.Redirect) {
	target := wordOf(r.Word)
	switch r.Op {
	case syntax.DplOut, syntax.DplIn: // 2>&1
		if target.known && (target.text == "1" || target.text == "2") {
			return
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn:
		if target.known && (target.text == "/dev/null" || inTree(target.text)) {
			return
		}
	}
	l.refuse("it redirects to or from something else than a file of the tree")
}

// inTree reports whether a path is relative and stays below the directory in which the command runs, outside of .git.
func inTree(name string) bool {
	if name == "" || path.IsAbs(name) || strings.HasPrefix(name, "-") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

// assignable are the variables that a line may set for a call: they do not change which programs it starts.
var assignable = map[string]bool{"CGO_ENABLED": true, "GOOS": true, "GOARCH": true, "GOMAXPROCS": true,
	"NODE_ENV": true,
	"CI":       true, "DEBUG": true, "RUST_BACKTRACE": true, "RUST_LOG": true, "LC_ALL": true, "LANG": true, "TZ": true,
	"NO_COLOR": true, "FORCE_COLOR": true, "PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PORT": true,
	"VERBOSE": true}

// plainCall adds a call whose words are literals.
func (l *line) plainCall(c *syntax.CallExpr) {
	for _, a := range c.Assigns {
		literal := a.Value == nil || wordOf(a.Value).known
		if len(c.Args) == 0 || a.Append || !literal || a.Name == nil || !assignable[a.Name.Value] {
			l.refuse("it sets variables")
		}
	}
	found := callOf(c)
	for _, w := range found.words {
		if !w.known {
			l.refuse("it has words that the shell expands")
			return
		}
	}
	if len(found.words) > 0 {
		l.plain = append(l.plain, found)
	}
}

// callOf returns a call with its words.
func callOf(c *syntax.CallExpr) (out call) {
	for _, w := range c.Args {
		out.words = append(out.words, wordOf(w))
	}
	return out
}

// wordOf returns a word as the program gets it, if no shell would expand it.
func wordOf(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	var out strings.Builder
	known := true
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text, ok := unescaped(p.Value, i == 0)
			known = known && ok
			out.WriteString(text)
		case *syntax.SglQuoted:
			known = known && !p.Dollar
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			known = known && !p.Dollar
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					known = false
					continue
				}
				out.WriteString(unescapedInQuotes(lit.Value))
			}
		default:
			known = false
		}
	}
	return word{text: out.String(), known: known}
}

// unescaped removes the backslashes of an unquoted literal. It returns false if a shell may expand the literal: for
// patterns, braces, tildes and dollar signs. A pattern that begins with ./ expands to names that begin so.
func unescaped(text string, first bool) (string, bool) {
	var out strings.Builder
	known := true
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i < len(text) && text[i] != '\n' {
				out.WriteByte(text[i])
			}
		case '*', '?', '[':
			known = known && first && strings.HasPrefix(text, "./")
			out.WriteByte(c)
		case '{', '$', '`', '!':
			known = false
			out.WriteByte(c)
		case '~':
			known = known && (!first || i > 0) && !strings.ContainsAny(text[:i], "=:")
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), known
}

// unescapedInQuotes removes the backslashes that have a meaning in double quotes.
func unescapedInQuotes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			if i++; text[i] != '\n' {
				out.WriteByte(text[i])
			}
			continue
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
