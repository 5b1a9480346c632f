package chat

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// live is the running turn, with its output that is not printed yet.
type live struct {
	id      string
	began   time.Time
	step    int
	text    splitter
	printed bool // some blocks of the step's text are already printed
	calls   []running
	usage   turn.Usage
	// thinking reports that reasoning arrived after the last text.
	thinking bool
	stopping bool

	shown shown
}

// running is a tool call that has started and not ended.
type running struct {
	id, tool, arguments string
	began               time.Time
	progress            string // in words; empty if the server reports none
}

// shown keeps the layout of the text, so that only what has changed is rendered again.
type shown struct {
	blocks []laid
	open   laid
	width  int
	until  time.Time // the open block is not rendered again before this time
	stale  bool      // the open block has changed but is not rendered again yet
}

// renderPause is how many times its rendering time the open block is shown unchanged, so that rendering takes at most a
// tenth of the time.
const renderPause = 9

type laid struct {
	block block
	lines []string
}

func (t *live) is(id string) bool { return t.id != "" && t.id == id }

// layout returns the lines of the text that is not printed yet.
func (t *live) layout(m *markdown, now func() time.Time) []string {
	if t.shown.width != m.width {
		t.shown = shown{width: m.width}
	}
	t.shown.blocks = t.shown.blocks[:min(len(t.shown.blocks), len(t.text.settled))]
	for i := len(t.shown.blocks); i < len(t.text.settled); i++ {
		t.shown.blocks = append(t.shown.blocks, laid{t.text.settled[i], m.render(t.text.settled[i])})
	}
	var lines []string
	for i, l := range t.shown.blocks {
		lines = appendBlock(lines, l, i > 0)
	}
	if rest, ok := t.text.rest(); ok {
		began := now()
		t.shown.stale = t.shown.open.block != rest && began.Before(t.shown.until)
		if t.shown.open.block != rest && !t.shown.stale {
			t.shown.open = laid{rest, m.render(rest)}
			t.shown.until = began.Add((1 + renderPause) * now().Sub(began))
		}
		lines = appendBlock(lines, t.shown.open, len(lines) > 0)
	}
	return lines
}

func appendBlock(lines []string, l laid, gap bool) []string {
	if gap && !l.block.continued {
		lines = append(lines, "")
	}
	return append(lines, l.lines...)
}

// drop removes the first settled block, which was printed.
func (t *live) drop() {
	t.text.settled = t.text.settled[1:]
	if len(t.shown.blocks) > 0 {
		t.shown.blocks = t.shown.blocks[1:]
	}
	t.printed = true
}
