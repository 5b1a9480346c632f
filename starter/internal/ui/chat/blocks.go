package chat

import (
	"strings"
	"unicode/utf8"
)

// block is a piece of Markdown that is rendered on its own: a fenced code block, or the text between blank lines.
type block struct {
	text string
	code bool
	// continued reports that the block continues the one before it, without a blank line between them.
	continued bool
}

// Bounds on what is rendered again with each piece of a stream, in bytes. A longer block is cut at the end of a line,
// and a longer line at a space.
const (
	maxBlock = 4 << 10
	maxLine  = 4 << 10
)

// splitter cuts a stream of Markdown into blocks. A block is settled when nothing that follows can change its
// appearance. Only the open block must be rendered again when more text arrives.
type splitter struct {
	settled   []block
	open      strings.Builder // whole lines of the open block
	line      strings.Builder // the last line, which is incomplete
	fence     string          // the fence of the open code block; empty if there is none
	inner     string          // the fence of a code block within a list; empty if there is none
	list      bool            // the open block is a list
	gap       bool            // the open block ends with blank lines
	continued bool            // the open block continues the last settled one
}

// write adds text to the stream.
func (s *splitter) write(text string) {
	for text != "" {
		line, rest, whole := strings.Cut(text, "\n")
		if room := maxLine - s.line.Len(); len(line) > room {
			at := breakAt(line, room)
			s.line.WriteString(line[:at])
			s.takeLong()
			text = text[at:]
			continue
		}
		s.line.WriteString(line)
		if whole {
			s.take(s.line.String())
			s.line.Reset()
		}
		text = rest
	}
}

// breakAt returns the index at which to break a line so that it fits into n bytes: after its last space, or between two
// characters.
func breakAt(line string, n int) int {
	if at := strings.LastIndexByte(line[:n], ' '); at >= 0 {
		return at + 1
	}
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return n
}

// takeLong processes the beginning of a line that is too long.
func (s *splitter) takeLong() {
	s.take(s.line.String())
	s.line.Reset()
	if s.fence == "" {
		s.settle()
		s.continued = true
	}
}

// take processes a whole line.
func (s *splitter) take(line string) {
	switch {
	case s.fence != "":
		s.takeCode(line)
	case s.inner != "":
		if closes(line, s.inner) {
			s.inner = ""
		}
		s.add(line)
	case strings.TrimSpace(line) == "":
		s.gap = s.open.Len() > 0
		s.add("")
	default:
		s.takeProse(line)
	}
}

func (s *splitter) takeCode(line string) {
	if closes(line, s.fence) {
		s.settleCode()
		s.fence = ""
		return
	}
	s.add(line)
	if s.open.Len() > maxBlock {
		s.settleCode()
		s.continued = true
	}
}

func (s *splitter) takeProse(line string) {
	flush := line[0] != ' ' && line[0] != '\t'
	if s.open.Len() > 0 && (s.gap && flush && !(s.list && isItem(line)) || s.open.Len() > maxBlock) {
		joined := !s.gap
		s.settle()
		s.continued = joined
	}
	s.gap = false
	fence := opens(line)
	if fence != "" && flush {
		s.settle()
		s.fence = fence
		return
	}
	s.inner = fence
	s.list = s.list || isItem(line)
	s.add(line)
}

func (s *splitter) add(line string) {
	s.open.WriteString(line)
	s.open.WriteByte('\n')
}

// settle ends the open block.
func (s *splitter) settle() {
	if s.fence != "" {
		s.settleCode()
		return
	}
	if text := strings.Trim(s.open.String(), "\n"); text != "" {
		s.settled = append(s.settled, block{text: text, continued: s.continued})
		s.continued = false
	}
	s.open.Reset()
	s.list, s.gap, s.inner = false, false, ""
}

func (s *splitter) settleCode() {
	s.settled = append(s.settled, block{text: strings.TrimSuffix(s.open.String(), "\n"), code: true,
		continued: s.continued})
	s.continued = false
	s.open.Reset()
}

// rest returns the open block as far as it has arrived; false if there is none.
func (s *splitter) rest() (block, bool) {
	text := s.open.String() + s.line.String()
	if s.fence != "" {
		return block{text: strings.TrimSuffix(text, "\n"), code: true, continued: s.continued}, true
	}
	text = strings.Trim(text, "\n")
	return block{text: text, continued: s.continued}, strings.TrimSpace(text) != ""
}

// end settles everything that is left.
func (s *splitter) end() {
	if s.line.Len() > 0 {
		s.take(s.line.String())
		s.line.Reset()
	}
	s.settle()
	s.fence = ""
}

// blocksOf cuts a whole text into blocks.
func blocksOf(text string) []block {
	var s splitter
	s.write(text)
	s.end()
	return s.settled
}

// opens returns the fence that a line opens (CommonMark 0.31, section 4.5), or an empty string.
func opens(line string) string {
	text := strings.TrimLeft(line, " \t")
	for _, mark := range []byte("`~") {
		n := len(text) - len(strings.TrimLeft(text, string(mark)))
		if n >= 3 && (mark == '~' || !strings.Contains(text[n:], "`")) {
			return text[:n]
		}
	}
	return ""
}

func closes(line, fence string) bool {
	text := strings.TrimSpace(line)
	return len(text) >= len(fence) && strings.Trim(text, fence[:1]) == ""
}

// isItem reports whether a line begins a list item.
func isItem(line string) bool {
	text := strings.TrimLeft(line, " ")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	switch {
	case text == "":
		return false
	case digits > 0 && digits < len(text) && (text[digits] == '.' || text[digits] == ')'):
		text = text[digits+1:]
	case strings.IndexByte("-*+", text[0]) >= 0:
		text = text[1:]
	default:
		return false
	}
	return text == "" || text[0] == ' '
}
