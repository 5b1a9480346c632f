package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
)

// Limits on the rows of the live part that each list takes.
const (
	callRows    = 4
	pendingRows = 3
)

// maxLive is the maximum number of rows of the live part. The other rows are left to the output printed above it.
func (m *Model) maxLive() int {
	return min(max(m.height*2/3, min(m.height-2, 10), 2), max(m.height-1, 1))
}

// cols is the width that lines may have. The last column stays free, because terminals and Bubble Tea disagree about
// the cursor's position after it.
func (m *Model) cols() int { return max(1, m.width-1) }

// View returns the live part as the last Update laid it out.
func (m *Model) View() tea.View { return m.view }

// compose lays out the live part. Until something is printed, the live part never has fewer rows than before: printing
// takes Bubble Tea's cursor to the first row, but from another row Bubble Tea loses track of the cursor when rows
// disappear.
func (m *Model) compose() {
	lines, cursor := m.rows()
	if len(lines) < m.floor {
		lines = append(lines, make([]string, m.floor-len(lines))...)
	}
	m.floor = len(lines)
	m.view = tea.NewView(strings.Join(lines, "\n"))
	m.view.Cursor = cursor
}

// rows returns the rows of the live part and the cursor's position in them.
func (m *Model) rows() ([]string, *tea.Cursor) {
	if m.width == 0 || m.leaving {
		return nil, nil
	}
	input := strings.Split(m.input.View(), "\n")
	below := m.status()
	lines := m.above(m.maxLive() - len(input) - len(below))
	c := m.input.Cursor()
	if c != nil {
		c.Y += len(lines)
		c.Blink = false
	}
	for _, line := range input {
		lines = append(lines, trimRight(line))
	}
	lines = append(lines, below...)
	if m.deciding {
		return lines, nil
	}
	return lines, c
}

// above returns what stands above the input, in at most rows rows. The current request has priority, then the running
// calls and the messages on their way. The text takes the remaining rows.
func (m *Model) above(rows int) []string {
	panel := m.panel(rows)
	rows -= len(panel)
	calls := clip(m.callLines(), max(0, min(rows, callRows)))
	rows -= len(calls)
	pending := clip(m.pendingLines(), max(0, min(rows, pendingRows)))
	rows -= len(pending)
	var lines []string
	if text := m.turn.layout(m.markdown, m.now); len(text) > 0 && rows > 0 {
		text = text[max(0, len(text)-rows):] // keep the end, which is the newest text
		lines = append(lines, text...)
	}
	lines = append(lines, calls...)
	lines = append(lines, pending...)
	return append(lines, panel...)
}

// textRows is how many rows of text stay in the live part. Text above them is printed as soon as it is settled.
func (m *Model) textRows() int { return max(1, m.maxLive()-4) }

func (m *Model) callLines() []string {
	var lines []string
	for _, c := range m.turn.calls {
		text := fmt.Sprintf("→ %s %s", ui.Preview(c.tool), ui.Preview(c.arguments))
		if c.progress != "" {
			text = fmt.Sprintf("→ %s %s", ui.Preview(c.tool), c.progress)
		}
		lines = append(lines, m.palette.paint(dim, cutWidth(strings.TrimSpace(text), m.cols())))
	}
	return lines
}

func (m *Model) pendingLines() []string {
	var lines []string
	for _, p := range m.outbox.list {
		state := "sending"
		switch {
		case p.accepted && p.queue:
			state = "queued"
		case p.accepted:
			state = "accepted"
		}
		text := fmt.Sprintf("› %s · %s", ui.Preview(p.text), state)
		if room := m.cols() - len(state) - 5; room > 8 {
			text = fmt.Sprintf("› %s · %s", cutWidth(ui.Preview(p.text), room), state)
		}
		lines = append(lines, m.palette.paint(dim, cutWidth(text, m.cols())))
	}
	return lines
}

// status is the last row: a hint, or the state of the chat.
func (m *Model) status() []string {
	text := m.notice
	if text == "" {
		text = m.state()
	}
	return []string{m.palette.paint(dim, cutWidth(text, m.cols()))}
}

// state describes the state of the chat, the most important part first, because a narrow terminal cuts off the rest.
func (m *Model) state() string {
	t := &m.turn
	if t.id == "" {
		if len(m.outbox.list) > 0 {
			return "waiting for a worker · " + m.session
		}
		if !m.drawn || m.flushing || len(m.queue) > 0 { // typing now might move the printed output
			return "opening · " + m.session
		}
		return "ready · " + m.session + " · " + ui.Usage(m.used)
	}
	state := "answering"
	switch {
	case t.stopping:
		state = "stopping"
	case m.question() != nil:
		state = "question: type your answer"
	case m.elicitation() != nil:
		state = form.Asker(m.elicitation().Request) + " asks: type your answer, or /decline"
	case m.approval() != nil:
		state = strings.TrimSpace(m.approval().position() + " waiting for your decision")
	case len(t.calls) > 0:
		state = "calling " + ui.Count(len(t.calls), "tool")
	case t.thinking:
		state = "thinking"
	}
	took := max(m.now().Sub(t.began).Truncate(1e9), 0)
	return fmt.Sprintf("%s %s · step %d · %s · %s", state, took, max(t.step, 1), ui.Usage(t.usage), m.session)
}
