package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Bounds of the user's own commands: the time and the output in bytes of one, of which the end is kept, and the number
// of commands of which the next message includes the output.
const (
	shellWithin = 10 * time.Minute
	shellOutput = 32 << 10
	maxCommands = 8
)

// shellCommand is a command that the user runs after a "!".
type shellCommand struct {
	line   string
	where  string // for the user and the model, if the session has files elsewhere; otherwise empty
	cancel context.CancelFunc
	entry  *entry
}

// shellMsg is the end of a command.
type shellMsg struct {
	command *shellCommand
	ended   string // "ok", or how the command failed
	output  string
	took    time.Duration
}

// treeVariable is the environment variable with which a command of the user finds the session's tree. The command does
// not run there by itself: even git status would run what the tree's .git is configured to, which the session can change.
const treeVariable = "EVERTURN_TREE"

// runShell runs a command in the user's shell and the current directory. It has no terminal, so that it cannot wait for
// keys that go to the chat.
func (m *Model) runShell(line string) tea.Cmd {
	switch {
	case line == "":
		m.hint("! needs a command, for example: !git status")
		return nil
	case m.shell != nil:
		m.hint("a command is running; Esc stops it")
		return nil
	}
	m.clearInput("!" + line)
	ctx, cancel := context.WithTimeout(m.ctx, shellWithin)
	c := &shellCommand{line: line, cancel: cancel, entry: m.add(&entry{kind: entryShell, open: m.open})}
	environ := m.o.Environ
	if dir := m.tree(); dir != "" {
		c.where, environ = " · in your folder, not in $"+treeVariable, append(slices.Clip(environ), treeVariable+"="+dir)
	}
	c.entry.head = "! " + line + c.where + " · running"
	m.shell = c
	return func() tea.Msg {
		defer cancel()
		var out tail
		began := time.Now()
		cmd := exec.CommandContext(ctx, m.userShell(), "-c", line)
		cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a group of its own, and no terminal
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second // for a process in the background that holds the output open
		ended := "ok"
		if err := cmd.Run(); ctx.Err() != nil {
			ended = "stopped"
		} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			ended = err.Error() // "exit status 1"
		}
		return shellMsg{c, ended, out.String(), time.Since(began)}
	}
}

// userShell returns the shell that the environment names.
func (m *Model) userShell() string {
	for _, pair := range m.o.Environ {
		if shell, ok := strings.CutPrefix(pair, "SHELL="); ok && shell != "" {
			return shell
		}
	}
	return "/bin/sh"
}

// stopShell stops the running command, if there is one.
func (m *Model) stopShell() bool {
	if m.shell == nil {
		return false
	}
	m.shell.cancel()
	return true
}

// shellEnded shows how a command has ended, and keeps its output for the next message.
func (m *Model) shellEnded(msg shellMsg) {
	c := msg.command
	m.shell = nil
	output := termsafe.Printable(ansi.Strip(msg.output))
	c.entry.head = fmt.Sprintf("! %s%s · %s · %s", c.line, c.where, msg.ended, ui.Duration(msg.took))
	c.entry.text = strings.TrimRight(output, "\n")
	m.change(c.entry)
	where := ""
	if c.where != "" {
		where = ` directory="the user's, which has other files than yours"`
	}
	m.commands = append(m.commands, commandOutput{c.line, fmt.Sprintf("<shell command=%q%s result=%q>\n%s\n</shell>",
		c.line,
		where, msg.ended, cmp.Or(c.entry.text, "(no output)"))})
	m.commands = m.commands[max(0, len(m.commands)-maxCommands):]
}

// commandOutput is the output of a command that the next message includes.
type commandOutput struct{ line, text string }

// include appends the output of the user's commands to a message.
func (out *outgoing) include(commands []commandOutput) {
	out.commands = commands
	for _, c := range commands {
		out.text += "\n\n" + c.text
		out.added = append(out.added, "!"+ui.Preview(c.line))
	}
}

// tail keeps the last shellOutput bytes that are written to it.
type tail struct {
	kept    []byte
	dropped int
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if more := len(t.kept) - shellOutput; more > shellOutput {
		t.dropped += more
		t.kept = bytes.Clone(t.kept[more:])
	}
	return len(b), nil
}

// String returns what is kept, and a note about what is not.
func (t *tail) String() string {
	kept, dropped := t.kept, t.dropped
	if more := len(kept) - shellOutput; more > 0 {
		kept, dropped = kept[more:], dropped+more
	}
	text := strings.ToValidUTF8(string(kept), "\uFFFD")
	if dropped == 0 {
		return text
	}
	return fmt.Sprintf("[cut: the first %d bytes]\n%s", dropped, text)
}
