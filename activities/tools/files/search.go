package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

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
	pattern      *regexp.Regexp
	instructions int // of pattern
	out          strings.Builder
	files        int
	matches      int
	denied       int // files that look like credentials
	linked       int // files with several hard links
	protected    int // files that the configuration names
	note         string
	ignored      ignored
}

func (w *workspace) search(ctx context.Context, in SearchInput) (string, error) {
	s := &search{call: w.begin()}
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

// compile returns the compiled query and its approximate number of instructions.
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

// run searches a file, or all files below a directory.
func (s *search) run(ctx context.Context, dir, glob string) error {
	if e, err := s.call.look(dir); err != nil {
		return err
	} else if !e.mode.IsDir() {
		return s.file(ctx, dir)
	}
	s.ignored = s.call.ignored(dir)
	return s.call.walk(ctx, dir, maxDepth, func(name string, e entry) error {
		if s.ignored.match(name, e.mode.IsDir()) {
			if e.mode.IsDir() {
				return errSkip
			}
			return nil
		}
		if e.mode.IsDir() {
			s.ignored.read(s.call, name)
		}
		if ok, _ := path.Match(glob, path.Base(name)); !e.mode.IsRegular() || glob != "" && !ok {
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
	switch {
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
	r := bufio.NewReaderSize(io.LimitReader(f, maxSearchFile), 64<<10)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		match := s.find(ctx, strings.TrimRight(line, "\r\n"))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if match != nil && line != "" {
			if s.matches == maxMatches {
				s.note = fmt.Sprintf("only the first %d matches", maxMatches)
				return errStop
			}
			s.matches++
			fmt.Fprintf(&s.out, "%s:%d: %s\n", name, n, excerpt(line, match[0]))
		}
		if err != nil {
			return nil //nolint:nilerr // the end of the file, or of what can be read of it
		}
	}
}

// find returns the location of the pattern's match in line, or nil. If matching may take long, it checks the context
// meanwhile; its result is meaningless once the context has ended.
func (s *search) find(ctx context.Context, line string) []int {
	if s.instructions*len(line) <= maxSteps {
		return s.pattern.FindStringIndex(line)
	}
	return s.pattern.FindReaderIndex(&runes{ctx: ctx, line: line})
}

// runes reads the runes of a line. It returns io.EOF early if the context ends.
type runes struct {
	ctx  context.Context
	line string
	at   int
	read int // runes
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (rune, int, error) {
	if r.read++; r.at == len(r.line) || r.read%1024 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.line[r.at:])
	r.at += size
	return c, size, nil
}

// excerpt returns a line without its indentation; of a long line, the part around the match, which begins at the offset
// match.
func excerpt(line string, match int) string {
	match -= len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
	line = strings.TrimSpace(line)
	if len(line) <= maxLineBytes {
		return line
	}
	begin := max(0, min(match-maxLineBytes/4, len(line)-maxLineBytes))
	return strings.ToValidUTF8("…"+line[begin:begin+maxLineBytes]+"…", "")
}
