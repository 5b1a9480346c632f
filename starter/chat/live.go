package chat

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// live is the turn that runs: what of it is not printed yet.
type live struct {
	id      string
	began   time.Time
	step    int
	text    splitter
	printed bool // of the step's text, blocks were printed already
	calls   []running
	usage   turn.Usage
	// thinking: reasoning came after the last text.
	thinking bool
	stopping bool

	shown shown
}

// running is a call that has begun.
type running struct {
	id, tool, arguments string
	began               time.Time
	progress            string // how far it has come, in words; empty where its server does not say
}

// shown keeps how the text was laid out, so that only what changed is rendered again.
type shown struct {
	blocks []laid
	open   laid
	width  int
	until  time.Time // the open block is not rendered again before
	stale  bool      // it would have been
}

// patience is how many times as long as it took to render the open block it is shown as it is: a tenth of the time is
// enough for it.
const patience = 9

type laid struct {
	block block
	lines []string
}

func (t *live) is(id string) bool { return t.id != "" && t.id == id }

// layout is the text that is not printed yet, in lines.
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
			t.shown.until = began.Add((1 + patience) * now().Sub(began))
		}
		lines = appendBlock(lines, t.shown.open, len(lines) > 0)
	}
	return lines
}

func appendBlock(lines []string, l laid, gap bool) []string {
	if gap && !l.block.joined {
		lines = append(lines, "")
	}
	return append(lines, l.lines...)
}

// drop forgets the first settled block: it was printed.
func (t *live) drop() {
	t.text.settled = t.text.settled[1:]
	if len(t.shown.blocks) > 0 {
		t.shown.blocks = t.shown.blocks[1:]
	}
	t.printed = true
}
