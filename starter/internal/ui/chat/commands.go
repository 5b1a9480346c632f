package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// slashCommand is a command that the user types into the input.
type slashCommand struct {
	name     string // without the slash
	argument string // the form of the argument, for /help; empty if the command takes none
	does     string // what the command does, for /help
	run      func(m *Model, argument string) tea.Cmd
}

// slashCommands returns the commands. It is a function, because a variable would refer to itself: /help lists the
// commands.
func slashCommands() []slashCommand {
	return []slashCommand{
		{"compact", "[FOCUS]", "summarize the conversation for its next prompts; it stays as it is",
			(*Model).compactCommand},
		{"decline", "", "decline the request of an MCP server", (*Model).declineCommand},
		{"diff", "[FILE]", "show what the session has changed", (*Model).diffCommand},
		{"effort", "[LEVEL]", "choose how hard the model of new turns reasons; /effort default takes the agent's",
			(*Model).effortCommand},
		{"fork", "[N]", "continue in a new session that shares this one's messages, or the first N", (*Model).forkCommand},
		{"help", "", "list the commands and keys", (*Model).helpCommand},
		{"merge", "[BRANCH]", "show what the session has changed, and merge it if you say so", (*Model).mergeCommand},
		{"model", "[NAME]", "choose the model of new turns; /model default takes the agent's",
			(*Model).modelCommand},
		{"open", "", "show the link to the turn in Temporal's Web UI", (*Model).openCommand},
		{"queue", "TEXT", "send a message for the next turn", (*Model).queueCommand},
		{"quit", "", "leave; a running turn continues", func(m *Model, _ string) tea.Cmd { return m.detach() }},
		{"sessions", "[N|ID]", "choose one of the last sessions, and switch to it", (*Model).sessionsCommand},
		{"stop", "", "stop the running turn; its results so far are " +
			"kept", func(m *Model, _ string) tea.Cmd { return m.stop() }},
		{"tools", "", "list the tools that workers offer", (*Model).toolsCommand},
		{"undo", "", "take back the last change of the session's files", (*Model).undoCommand},
	}
}

// command runs the slash command in a line of the input.
func (m *Model) command(line string) tea.Cmd {
	name, argument, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	argument = strings.TrimSpace(argument)
	all := slashCommands()
	i := slices.IndexFunc(all, func(s slashCommand) bool { return s.name == name })
	if i < 0 {
		m.printError("there is no command /%s; /help lists them", termsafe.Line(name, 20))
		return nil
	}
	if argument != "" && all[i].argument == "" {
		m.printError("/%s takes no argument", name)
		return nil
	}
	if name != "queue" { // /queue clears the input itself, and only if the outbox takes its message
		m.clearInput(line)
	}
	return all[i].run(m, argument)
}

// replyMsg is the result of a command.
type replyMsg struct {
	lines []string // to show
	err   error
	open  string // the session to switch to; empty: none
}

// replied shows the result of a command, and switches to another session if the command says so.
func (m *Model) replied(msg replyMsg) tea.Cmd {
	if msg.err != nil {
		m.printError("%v", msg.err)
	}
	for _, line := range msg.lines {
		m.addText(entryNote, line)
	}
	if msg.open == "" {
		return nil
	}
	return m.switchSession(msg.open)
}

// switchSession switches to another session. It refuses while a message has not been accepted, because the outbox would
// send it to the other session.
func (m *Model) switchSession(session string) tea.Cmd {
	if len(m.outbox.unsent()) > 0 {
		m.printError("a message of this session is still being sent; switch when it has arrived")
		return nil
	}
	m.outbox.list = nil // the workflow of this session has accepted them
	return m.loadSession(session)
}

func (m *Model) queueCommand(text string) tea.Cmd {
	if text == "" {
		m.printError("/queue needs a text, for example: /queue And the tests?")
		return nil
	}
	return m.queueMessage(text, true)
}

// helpCommand lists the slash commands and the keys.
func (m *Model) helpCommand(string) tea.Cmd {
	for _, s := range slashCommands() {
		m.note("%-17s %s", strings.TrimSpace("/"+s.name+" "+s.argument), s.does)
	}
	for _, k := range [][2]string{
		{"Enter", "send a message, which is merged into a running turn; // begins one that starts with a slash"},
		{"Alt-Enter, Ctrl-J", "start a new line"},
		{"@", "name a file, which is attached: an image, a PDF or a text; @@ begins a word that names none"},
		{"!", "run a command in your shell, whose output the next message includes; !! begins a message with a !"},
		{"Up, Down, Ctrl-R", "recall earlier messages, or search them"},
		{"Ctrl-G", "edit the message in $VISUAL or $EDITOR"},
		{"PgUp, PgDn, wheel", "scroll the conversation; hold Shift to select text with the mouse"},
		{"Ctrl-O, click", "open or fold tool calls, reasoning, long messages and outputs"},
		{"y, n", "in an approval: allow or deny the call; r denies with a reason"},
		{"a, t", "in an approval: allow later calls with the same arguments, or all later calls of this tool"},
		{"c, h", "in some approvals: allow later calls of the same commands, or to the same host, which are named there"},
		{"Tab", "switch between a request and the input"},
		{"Esc", "stop the running turn, or close a menu or leave a request"},
		{"Ctrl-C twice", "stop the running turn, or leave if none runs"},
		{"Ctrl-D", "leave; a running turn continues"},
		{"Ctrl-Z", "suspend the chat until the shell continues it"},
	} {
		m.note("%-17s %s", k[0], k[1])
	}
	return nil
}

// modelCommand changes the model of the turns that begin with later messages of this chat. If name is empty, it offers
// the models in the menu, or shows the model if this configuration knows of no others. A running turn keeps its model.
func (m *Model) modelCommand(name string) tea.Cmd {
	switch name {
	case "":
		if len(m.modelChoices("")) > 1 {
			return m.offer("/model ")
		}
	case "default":
		m.o.Requested = ""
	default:
		if err := m.o.CheckModel(name); err != nil {
			m.printError("%v", err)
			return nil
		}
		m.o.Requested = name
	}
	m.note("model: %s; new turns use %s", ui.Preview(m.model),
		ui.Preview(cmp.Or(m.o.Requested, m.o.Model+" (the agent's)")))
	return nil
}

// offer puts the beginning of a command into the input, so that the menu offers its arguments.
func (m *Model) offer(command string) tea.Cmd {
	m.setInput(command)
	return m.complete()
}

// openCommand shows the link to the running turn, or to the session's last turn, in Temporal's Web UI.
func (m *Model) openCommand(string) tea.Cmd {
	if m.o.Link == nil {
		m.note("the address of the Web UI is not known")
		return nil
	}
	session, current := m.session, m.turn.id
	return m.background(func(ctx context.Context) tea.Msg {
		if s, err := m.o.Journal.Session(ctx, session); current == "" && err == nil {
			current = s.LastTurn.ID
		}
		if current == "" {
			return replyMsg{lines: []string{"the session has no turns yet"}}
		}
		return replyMsg{lines: []string{m.o.Link(session, current)}}
	})
}

// stop stops the session's running turn and its subagents in the background. The chat shows the turn as stopping until
// the journal has the turn's end.
func (m *Model) stop() tea.Cmd {
	mayRun := m.turn.id != "" || len(m.outbox.list) > 0 // a message may have begun a turn that the feed has not read
	if !mayRun && m.subagents == nil {
		m.hint("no turn is running")
		return nil
	}
	m.turn.stopping = m.turn.id != ""
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg {
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

// compactCommand compacts the conversation, if no turn is running. focus is what the summary must keep; it may be
// empty.
func (m *Model) compactCommand(focus string) tea.Cmd {
	session := m.session
	m.note("compacting the conversation")
	return func() tea.Msg { // without the timeout of m.background, because a model writes the summary
		res, err := m.o.Client.Compact(m.ctx, client.CompactInput{Session: session, Focus: focus})
		switch {
		case err != nil:
			return replyMsg{err: err}
		case res.Nothing:
			return replyMsg{lines: []string{"there is nothing to compact yet"}}
		}
		return replyMsg{lines: []string{res.String()}}
	}
}

// toolsCommand lists the tools in the catalogues of all workers.
func (m *Model) toolsCommand(string) tea.Cmd {
	return m.background(func(ctx context.Context) tea.Msg {
		list, err := m.o.Journal.Catalogues(ctx)
		if err != nil {
			return replyMsg{err: fmt.Errorf("listing the tools: %w", err)}
		}
		r := replyMsg{}
		for _, c := range list {
			for _, line := range toolLines(c) {
				if !slices.Contains(r.lines, line) { // two versions of a catalogue have the same tool
					r.lines = append(r.lines, line)
				}
			}
		}
		if len(r.lines) == 0 {
			r.lines = []string{"no worker has published tools yet"}
		}
		return r
	})
}

// toolLines describes the tools of a catalogue, one line each.
func toolLines(c turn.Catalogue) []string {
	if c.Problem != "" {
		return []string{fmt.Sprintf("%s is not available: %s", ui.Preview(c.Server), termsafe.Line(c.Problem, 160))}
	}
	var lines []string
	for _, t := range c.Tools {
		lines = append(lines, fmt.Sprintf("%s · %s risk · %s", ui.Preview(t.ID), t.Risk, ui.Preview(t.Description)))
	}
	if n := len(c.Quarantined); n > 0 {
		lines = append(lines, fmt.Sprintf("%s: %s; `everturn tools diff` shows the changes", ui.Preview(c.Server),
			ui.Count(n, "quarantined tool")))
	}
	return lines
}
