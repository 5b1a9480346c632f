package chat

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/list"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// maxReasoning is how much of the reasoning of a step the chat keeps, in bytes.
const maxReasoning = 64 << 10

// showReasoning appends a piece of the model's reasoning to the entry of its step.
func (m *Model) showReasoning(e turn.Event) {
	t := &m.turn
	t.thinking = true
	if t.reasoning == nil || t.reasoningStep != e.Step {
		t.reasoning, t.reasoningStep = m.add(&entry{kind: entryReasoning, open: m.open}), e.Step
		t.thought.Reset()
	}
	if room := maxReasoning - t.thought.Len(); room > 0 {
		t.thought.WriteString(turn.Truncate(e.Text, room))
	}
	t.reasoning.text = t.thought.String()
	m.change(t.reasoning)
}

// reasoningLines lays out reasoning: one line that says how long it is, and below it the text if the entry is open.
func (m *Model) reasoningLines(e *entry, width int) []string {
	head := fmt.Sprintf("thought · %d words", len(strings.Fields(e.text)))
	if !e.open {
		head += "; Ctrl-O or a click shows them"
	}
	lines := paint(m.theme.dim, wrapText(head, width))
	if e.open {
		lines = append(lines, paint(m.theme.dim, barred(wrapText(termsafe.Printable(strings.TrimSpace(e.text)), width-2)))...)
	}
	return lines
}

// effortCommand changes the effort of the turns that begin with later messages of this chat. If level is empty, it
// offers the levels in the menu. A running turn keeps its effort.
func (m *Model) effortCommand(level string) tea.Cmd {
	switch e := turn.Effort(level); {
	case level == "":
		return m.offer("/effort ")
	case level == "default":
		m.o.Chosen.Effort = ""
	case !e.Known():
		m.printError("/effort: there is no level %s; choose default, or one of %s", termsafe.Line(level, 20), effortNames())
		return nil
	default:
		m.o.Chosen.Effort = e
	}
	if m.o.Chosen.Effort == "" {
		m.note("new turns use the agent's effort")
	} else {
		m.note("new turns use the effort %s", m.o.Chosen.Effort)
	}
	return nil
}

// effortNames lists the levels of effort, weakest first.
func effortNames() string {
	var names []string
	for _, e := range turn.Efforts() {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

// effortChoices returns the levels of effort that match term.
func (m *Model) effortChoices(term string) []list.Item {
	all := []choice{{text: "/effort default", label: "default", does: "the agent's"}}
	for _, e := range turn.Efforts() {
		c := choice{text: "/effort " + string(e), label: string(e)}
		if e == m.o.Chosen.Effort {
			c.does = "chosen"
		}
		all = append(all, c)
	}
	return matching(term, all, func(c choice) bool { return c.label == term })
}
