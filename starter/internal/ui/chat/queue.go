package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Printing. Finished output goes above the live part, where it stays. Two things need care. Bubble Tea runs commands
// concurrently, so two of them might print in either order: the model therefore has one queue, and one flush under way
// at a time. Lines that do not fit above the live part push it into the scrollback, so a flush prints only as many as
// fit. The program's filter prints, because it takes the lines out of the queue in the same step in which they appear.

// drawnMsg arrives when the live part has been drawn for the first time. Until then Bubble Tea assumes that the live
// part fills the whole screen, and would print in the wrong place.
type drawnMsg struct{}

// firstFrames is how long the model waits for the first drawing.
const firstFrames = 4 * time.Second / framesPerSecond

// flushMsg asks the filter to print the next lines of the queue.
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

// takeLines removes the lines that can be printed at once from the queue and returns them.
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
		text = " " // Bubble Tea does not print an empty text
	}
	return text
}

// flush returns the command that prints the queue. It returns nil if the queue is empty, a flush is under way, or the
// live part has not been drawn yet.
func (m *Model) flush() tea.Cmd {
	if len(m.queue) == 0 || m.flushing || !m.drawn {
		return nil
	}
	m.flushing = true
	return func() tea.Msg { return flushMsg{} }
}

// Bounds on the printed entries that the model keeps, to lay them out again after a resize.
const (
	tailEntries = 200
	tailBytes   = 256 << 10
)

// print appends an entry to the queue.
func (m *Model) print(e entry) {
	m.tail = append(m.tail, e)
	m.tailSize += len(e.text) + len(e.block.text)
	for len(m.tail) > 1 && (len(m.tail) > tailEntries || m.tailSize > tailBytes) {
		m.tailSize -= len(m.tail[0].text) + len(m.tail[0].block.text)
		m.tail = m.tail[1:]
	}
	if m.width > 0 { // until the size is known, entries stay in the tail only
		m.queue = append(m.queue, e.lines(m.palette, m.markdown)...)
	}
}

// printText prints a text as an entry.
func (m *Model) printText(kind entryKind, text string) {
	gap := kind == entryOwn || kind == entryOther
	m.print(entry{kind: kind, text: text, gap: gap})
}

func (m *Model) printBlock(b block, gap bool) {
	m.print(entry{kind: entryBlock, block: b, gap: gap && !b.continued})
}

func (m *Model) printMarkdown(text string) {
	for _, b := range blocksOf(text) {
		m.printBlock(b, true)
	}
}

// home moves the cursor to the top of the screen and erases the screen (ECMA-48: CUP, ED); the scrollback stays.
const home = "\x1b[H\x1b[2J"

// repaint lays out again what the screen holds. A terminal whose width changes breaks the old lines, including those of
// the live part, as it likes, and does not report where they are now. The erase sequence is part of the printed lines
// because Bubble Tea writes those at once and everything else later. After that, Bubble Tea's own picture of the live
// part is invalid; Bubble Tea discards it when it receives the window size.
func (m *Model) repaint() tea.Cmd {
	var lines []string
	for i := len(m.tail) - 1; i >= 0 && len(lines) < m.height; i-- {
		lines = append(m.tail[i].lines(m.palette, m.markdown), lines...)
	}
	m.queue = lines[max(0, len(lines)-m.height):]
	m.flushing, m.repainting = true, true
	return tea.Sequence(func() tea.Msg { return flushMsg{} }, tea.RequestWindowSize)
}
