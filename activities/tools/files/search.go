package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/beneath"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/regex"
)

// SearchInput are the arguments of search_text.
type SearchInput struct {
	Query      string `json:"query" jsonschema:"text to look for"`
	Path       string `json:"path,omitempty" jsonschema:"file or directory to search in; empty for the whole workspace"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files whose name matches this pattern, such as *.go"`
	Regexp     bool   `json:"regexp,omitempty" jsonschema:"query is a regular expression (RE2)"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"upper and lower case are the same"`
}

// search is one search in progress.
type search struct {
	call         *call
	secrets      *redact.Redactor
	pattern      *regexp.Regexp
	instructions int // of the compiled pattern
	out          strings.Builder
	files        int    // number of files that were searched
	matches      int    // number of lines that were found
	denied       int    // number of files not searched because they look like credentials
	linked       int    // number of files not searched because they have several hard links
	protected    int    // number of files not searched because the configuration names them
	note         string // why the search ended early; empty if it did not
	ignore       ignoreRules
}

// search implements the tool search_text: it returns the matching lines, and notes about what was not searched.
func (w *workspace) search(ctx context.Context, in SearchInput) (string, error) {
	s := &search{call: w.begin(), secrets: w.secrets}
	dir, err := s.call.directory(in.Path)
	if err != nil {
		return "", err
	}
	if s.pattern, s.instructions, err = compile(in); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, maxSearchTime)
	defer cancel()
	if err := s.run(ctx, dir, in.Glob); err != nil && !errors.Is(err, errStop) {
		if !isContext(err) {
			return "", err
		}
		s.note = "out of time"
	}
	if s.matches == 0 {
		fmt.Fprintf(&s.out, "[nothing found in %d files]\n", s.files)
	}
	if s.denied > 0 || s.linked > 0 {
		fmt.Fprintf(&s.out, "[not searched: %d files that look like credentials, %d with several hard links]\n", s.denied,
			s.linked)
	}
	if s.protected > 0 {
		fmt.Fprintf(&s.out, "[not searched: %d files that the configuration names]\n", s.protected)
	}
	if s.note != "" {
		fmt.Fprintf(&s.out, "[cut: %s; search a subdirectory, or for something rarer]\n", s.note)
	}
	return s.out.String(), nil
}

// compile checks the arguments of a search. It returns the compiled query and the approximate number of its
// instructions.
func compile(in SearchInput) (*regexp.Regexp, int, error) {
	if in.Query == "" {
		return nil, 0, errors.New("query is empty: say what to look for")
	}
	if len(in.Query) > maxQueryBytes {
		return nil, 0, fmt.Errorf("query is %d bytes; the maximum is %d", len(in.Query), maxQueryBytes)
	}
	if _, err := path.Match(in.Glob, ""); err != nil {
		return nil, 0, fmt.Errorf("glob %q: %w", in.Glob, err)
	}
	expr := in.Query
	if !in.Regexp {
		expr = regexp.QuoteMeta(expr)
	}
	if in.IgnoreCase {
		expr = "(?i)" + expr
	}
	n, err := regex.Count(expr, 2*maxQueryBytes+len("(?i)"), maxQueryInstructions) // quoting may double the length
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	return re, n, nil
}

// run searches the file at the path dir or, if dir is a directory, the files below it whose names match glob. An empty
// glob matches all of them. Files that a .gitignore names are left out.
func (s *search) run(ctx context.Context, dir, glob string) error {
	if e, err := s.call.lstat(dir); err != nil {
		return err
	} else if !e.Mode.IsDir() {
		return s.file(ctx, dir)
	}
	s.ignore = s.call.ignoreRules(dir)
	return s.call.walk(ctx, dir, maxDepth, func(name string, e beneath.Entry) error {
		if s.ignore.match(name, e.Mode.IsDir()) {
			if e.Mode.IsDir() {
				return errSkip
			}
			return nil
		}
		if e.Mode.IsDir() {
			s.ignore.read(s.call, name)
		}
		if ok, _ := path.Match(glob, path.Base(name)); !e.Mode.IsRegular() || glob != "" && !ok {
			return nil
		}
		if s.files == maxSearched {
			s.note = fmt.Sprintf("only the first %d files were searched", maxSearched)
			return errStop
		}
		return s.file(ctx, name)
	})
}

// file searches one file. It skips a file that cannot be read or is not text.
func (s *search) file(ctx context.Context, name string) error {
	f, _, size, err := s.call.open(name)
	switch { // refused files are only counted
	case errors.Is(err, errDenied):
		s.denied++
		return nil
	case errors.Is(err, errHardLink):
		s.linked++
		return nil
	case errors.Is(err, errProtected):
		s.protected++
		return nil
	}
	s.files++
	if err != nil {
		return nil //nolint:nilerr // one unreadable file does not end a search
	}
	defer f.Close()
	if binary, err := isBinary(f); err != nil || binary || size > maxSearchFile {
		return nil //nolint:nilerr // as above
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxSearchFile)) // what can be read of it
	n := 0
	for line := range strings.Lines(s.secrets.Mask(string(b))) {
		n++
		match := s.findMatch(ctx, strings.TrimRight(line, "\r\n"))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if match != nil {
			if s.matches == maxMatches {
				s.note = fmt.Sprintf("only the first %d matches", maxMatches)
				return errStop
			}
			s.matches++
			fmt.Fprintf(&s.out, "%s:%d: %s\n", name, n, excerpt(line, match[0]))
		}
	}
	return nil
}

// findMatch returns the location of the pattern's match in line, or nil. If matching may take long, it checks the
// context meanwhile; its result is meaningless once the context has ended.
func (s *search) findMatch(ctx context.Context, line string) []int {
	if s.instructions*len(line) <= maxSteps {
		return s.pattern.FindStringIndex(line)
	}
	return s.pattern.FindReaderIndex(&lineReader{ctx: ctx, line: line})
}

// lineReader is an io.RuneReader of a line. It returns io.EOF before the end of the line if the context ends, so that
// a long match ends, too.
type lineReader struct {
	ctx    context.Context
	line   string
	offset int // of the next rune, in bytes
	count  int // number of runes that were read
}

// ReadRune implements io.RuneReader.
func (r *lineReader) ReadRune() (rune, int, error) {
	r.count++
	if r.offset == len(r.line) || r.count%1024 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.line[r.offset:])
	r.offset += size
	return c, size, nil
}

// excerpt returns a line without the white space around it. Of a line longer than maxLineBytes it returns only a part
// with the match, which begins at the byte offset match.
func excerpt(line string, match int) string {
	match -= len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
	line = strings.TrimSpace(line)
	if len(line) <= maxLineBytes {
		return line
	}
	begin := max(0, min(match-maxLineBytes/4, len(line)-maxLineBytes)) // a quarter of the part comes before the match
	return strings.ToValidUTF8("…"+line[begin:begin+maxLineBytes]+"…", "")
}
