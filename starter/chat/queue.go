package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Printing. What is finished goes above the live part, where it stays. Two things need care. Commands of Bubble Tea run
// concurrently, so that two of them might print in either order: there is one queue, and one flush under way at a time.
// And lines that do not fit above the live part push it into the scrollback: a flush prints only as many as fit. It is
// done by the program's filter, which takes the lines out of the queue in the same step in which they appear.

// drawnMsg comes when the live part was drawn for the first time. Until then Bubble Tea takes the whole screen for it, and
// would print in the wrong place.
type drawnMsg struct{}

// firstFrames is time enough for that.
const firstFrames = 4 * time.Second / framesPerSecond

// flushMsg asks for the next lines of the queue to be printed.
type flushMsg struct{}

// filter turns a flush into the message that makes Bubble Tea print.
func (m *Model) filter(_ tea.Model, msg tea.Msg) tea.Msg {
	if _, ok := msg.(flushMsg); !ok {
		return msg
	}
	lines := m.takeLines()
	if lines == "" {
		return msg
	}
	m.floor = 0
	return tea.Println(lines)()
}

// takeLines takes what may be printed at once out of the queue.
func (m *Model) takeLines() string {
	m.flushing = false
	if m.repainting {
		m.repainting = false
		text := home + strings.Join(m.queue, "\n")
		m.queue = nil
		return text
	}
	n := min(len(m.queue), max(1, m.height-m.maxLive()))
	lines := m.queue[:n]
	m.queue = m.queue[n:]
	text := strings.Join(lines, "\n")
	if n > 0 && text == "" {
		text = " " // an empty text would not be printed
	}
	return text
}

// flush has the queue printed, if there is something in it.
func (m *Model) flush() tea.Cmd {
	if len(m.queue) == 0 || m.flushing || !m.drawn {
		return nil
	}
	m.flushing = true
	return func() tea.Msg { return flushMsg{} }
}

// Bounds on what is kept to be laid out anew after a resize.
const (
	tailEntries = 200
	tailBytes   = 256 << 10
)

// print puts an entry into the queue.
func (m *Model) print(e entry) {
	m.tail = append(m.tail, e)
	m.tailSize += len(e.text) + len(e.block.text)
	for len(m.tail) > 1 && (len(m.tail) > tailEntries || m.tailSize > tailBytes) {
		m.tailSize -= len(m.tail[0].text) + len(m.tail[0].block.text)
		m.tail = m.tail[1:]
	}
	if m.width > 0 { // before the size is known, everything waits for it
		m.queue = append(m.queue, e.lines(m.palette, m.markdown)...)
	}
}

// say prints an entry of one text.
func (m *Model) say(kind entryKind, text string) {
	gap := kind == entrySaid || kind == entryOther
	m.print(entry{kind: kind, text: text, gap: gap})
}

func (m *Model) sayBlock(b block, gap bool) {
	m.print(entry{kind: entryBlock, block: b, gap: gap && !b.joined})
}

func (m *Model) sayMarkdown(text string) {
	for _, b := range blocksOf(text) {
		m.sayBlock(b, true)
	}
}

// home moves to the top of the screen and erases it (ECMA-48: CUP, ED); the scrollback stays.
const home = "\x1b[H\x1b[2J"

// repaint lays out anew what the screen holds. A terminal that changes its width breaks the old lines at will, the live
// part's among them, and nothing says where they are now. The erasing goes with the lines, because Bubble Tea writes
// those at once and everything else later. Its own picture of the live part is void after that; it forgets it when it is
// told the size.
func (m *Model) repaint() tea.Cmd {
	var lines []string
	for i := len(m.tail) - 1; i >= 0 && len(lines) < m.height; i-- {
		lines = append(m.tail[i].lines(m.palette, m.markdown), lines...)
	}
	m.queue = lines[max(0, len(lines)-m.height):]
	m.flushing, m.repainting = true, true
	return tea.Sequence(func() tea.Msg { return flushMsg{} }, tea.RequestWindowSize)
}
