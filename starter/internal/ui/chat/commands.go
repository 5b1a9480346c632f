package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/nearest"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// slash is a command that the user types into the input.
type slash struct {
	name, argument, does string
	run                  func(m *Model, argument string) tea.Cmd
}

// slashes returns the commands. It is a function because /help lists them.
func slashes() []slash {
	return []slash{
		{"after", "TEXT", "ask when the turn that runs is done", (*Model).afterCommand},
		{"decline", "", "say no to what a tool's server asks", (*Model).declineCommand},
		{"fork", "[N]", "go on in a new session that shares this one's past, or its first N messages", (*Model).forkCommand},
		{"help", "", "show this", (*Model).helpCommand},
		{"model", "", "show which model answers", (*Model).modelCommand},
		{"open", "", "show the link to the turn in Temporal's Web UI", (*Model).openCommand},
		{"quit", "", "leave; a turn that runs goes on", func(m *Model, _ string) tea.Cmd { return m.detach() }},
		{"sessions", "[N|ID]", "list the last sessions, or go to one", (*Model).sessionsCommand},
		{"stop", "", "stop the turn that runs; what was done is kept", func(m *Model, _ string) tea.Cmd { return m.stop() }},
		{"tools", "", "list the tools that the workers offer", (*Model).toolsCommand},
		{"usage", "", "show what the session has used", (*Model).usageCommand},
	}
}

// command runs a line that begins with a slash.
func (m *Model) command(line string) tea.Cmd {
	name, argument, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	argument = strings.TrimSpace(argument)
	all := slashes()
	i := slices.IndexFunc(all, func(s slash) bool { return s.name == name })
	if i < 0 {
		m.refuse("there is no command /%s%s; /help lists them", terminal.Line(name, 20), meant(name, all))
		return nil
	}
	if argument != "" && all[i].argument == "" {
		m.refuse("/%s takes no argument", name)
		return nil
	}
	if name != "after" { // /after sends a message, which is accepted with its own text
		m.accepted(line)
	}
	return all[i].run(m, argument)
}

// refuse reports what is wrong with a command. The command stays in the input so that the user can correct it.
func (m *Model) refuse(format string, args ...any) { m.trouble(format, args...) }

// meant suggests a command with a similar name; empty if there is none.
func meant(name string, all []slash) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	best := nearest.Name(name, names)
	if best == "" {
		return ""
	}
	return "; did you mean /" + best + "?"
}

// replyMsg is the result of a command.
type replyMsg struct {
	lines  []string
	err    error
	listed []string // session IDs, in the order in which they were listed
	link   string
	open   string // the session to switch to
}

func (m *Model) replied(msg replyMsg) tea.Cmd {
	if msg.err != nil {
		m.trouble("%v", msg.err)
	}
	for _, line := range msg.lines {
		m.say(entryNote, line)
	}
	if msg.link != "" {
		m.say(entryLink, msg.link)
	}
	if msg.listed != nil {
		m.listed = msg.listed
	}
	if msg.open == "" {
		return nil
	}
	return m.change(msg.open)
}

// change switches to another session.
func (m *Model) change(session string) tea.Cmd {
	if len(m.outbox.unsent()) > 0 {
		m.trouble("a message of this session is on its way; go when it has arrived")
		return nil
	}
	m.outbox.list = nil
	return m.opening(session)
}

func (m *Model) afterCommand(text string) tea.Cmd {
	if text == "" {
		m.refuse("/after needs a text, for instance: /after And the tests?")
		return nil
	}
	return m.message(text, true)
}

func (m *Model) helpCommand(string) tea.Cmd {
	for _, s := range slashes() {
		m.say(entryNote, fmt.Sprintf("%-17s %s", strings.TrimSpace("/"+s.name+" "+s.argument), s.does))
	}
	m.note("Enter sends, and joins the turn that runs; Alt-Enter or Ctrl-J begins a line; the arrow keys bring back what was typed; a message that begins with a slash is written with two")
	m.note("Ctrl-C twice stops the turn, or leaves where none runs; Ctrl-D leaves, and a turn that runs goes on")
	return nil
}

func (m *Model) modelCommand(string) tea.Cmd {
	m.note("new turns ask %s; which one that is says agent.toml of the workers, under [llm]", terminal.Line(m.o.Model, previewRunes))
	return nil
}

func (m *Model) openCommand(string) tea.Cmd {
	if m.o.Link == nil {
		m.note("no Web UI is known")
		return nil
	}
	session, current := m.session, m.turn.id
	return m.ask(func(ctx context.Context) tea.Msg {
		if s, err := m.o.Store.Session(ctx, session); current == "" && err == nil {
			current = s.LastTurn.ID
		}
		return replyMsg{link: m.o.Link(session, current)}
	})
}

// stop asks the session's workflow to stop the turn. The turn is over once the journal has its end.
func (m *Model) stop() tea.Cmd {
	if m.turn.id == "" && len(m.outbox.list) == 0 {
		m.hint("no turn is running")
		return nil
	}
	m.turn.stopping = m.turn.id != ""
	session := m.session
	return m.ask(func(ctx context.Context) tea.Msg {
		err := m.o.Client.Stop(ctx, session)
		switch {
		case errors.Is(err, client.ErrNotRunning):
			return replyMsg{lines: []string{"no turn is running"}}
		case err != nil:
			return replyMsg{err: err}
		}
		return replyMsg{}
	})
}

func (m *Model) toolsCommand(string) tea.Cmd {
	return m.ask(func(ctx context.Context) tea.Msg {
		list, err := m.o.Store.Catalogues(ctx)
		if err != nil {
			return replyMsg{err: fmt.Errorf("listing the tools: %w", err)}
		}
		r := replyMsg{}
		for _, c := range list {
			r.lines = append(r.lines, toolLines(c)...)
		}
		if len(r.lines) == 0 {
			r.lines = []string{"no worker has published tools yet"}
		}
		return r
	})
}

func toolLines(c turn.Catalogue) []string {
	if c.Problem != "" {
		return []string{fmt.Sprintf("%s is not available: %s", terminal.Line(c.Server, previewRunes), terminal.Line(c.Problem, 2*previewRunes))}
	}
	var lines []string
	for _, t := range c.Tools {
		lines = append(lines, fmt.Sprintf("%s · %s risk · %s", terminal.Line(t.ID, previewRunes), t.Risk, terminal.Line(t.Description, previewRunes)))
	}
	if n := len(c.Quarantined); n > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s held back because they are not what was accepted; `starter tools diff` shows why", terminal.Line(c.Server, previewRunes), plural(n, "tool is", "tools are")))
	}
	return lines
}

// usageCommand shows the sum of what the session's turns have used.
func (m *Model) usageCommand(string) tea.Cmd {
	session, current, live := m.session, m.turn.id, m.turn.usage
	return m.ask(func(ctx context.Context) tea.Msg {
		list, err := m.o.Store.Turns(ctx, session)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return replyMsg{err: fmt.Errorf("adding up the session's turns: %w", err)}
		}
		var sum, last turn.Usage
		steps, calls := 0, 0
		for _, t := range list {
			if t.ID == current {
				t.Usage = live
			}
			sum, last = sum.Add(t.Usage), t.Usage
			steps, calls = steps+t.Steps, calls+t.Calls
		}
		return replyMsg{lines: []string{
			"this turn: " + tokens(last),
			fmt.Sprintf("session: %s · %s · %s · %s", plural(len(list), "turn", "turns"), plural(steps, "step", "steps"), plural(calls, "tool call", "tool calls"), tokens(sum)),
		}}
	})
}
